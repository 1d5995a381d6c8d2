/* hvdrun.c: launch the ranks of a job on this machine: the steps, in order. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/secret.h"
#include "base/stack.h"
#include "tools/common/command.h"
#include "tools/hvdrun/options.h"
#include "tools/hvdrun/rank_environment.h"
#include "tools/hvdrun/place_variables.h"
#include "tools/hvdrun/scratch.h"
#include "tools/hvdrun/supervisor.h"

#define EXIT_USAGE  2
#define EXIT_BROKEN 1
/* two pipes and a PMIx connection for each rank, its two files, and hvdrun's own */
#define DESCRIPTORS(n, files) ((3 + ((files) ? 2 : 0)) * (n) + 64)

extern char **environ;

/* Everything that shut_down and release free at the end. */
struct launch_state {
    struct hvdrun_options options;
    char path[PATH_MAX];
    char scratch[PATH_MAX];
    char shared_scratch[64];
    char host[256];
    char **environment; /* shared by all ranks */
    struct rank_places *places;
    int size;             /* ranks */
    sigset_t signal_mask; /* the mask that hvdrun was started with; the ranks get it */
    struct reaper_plan plan;
    struct reaper reaper;
    struct supervisor supervisor;
};

static int say(const char *sentence)
{
    fprintf(stderr, "hvdrun: %s\n", sentence);
    return HVD_ERR_INVALID;
}

/* If hvdrun was started with one of the descriptors 0, 1 and 2 closed, a pipe or socket would get that number
 * and would be taken for stdin, stdout or stderr. */
static void open_stdio(void)
{
    int fd = 0;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static int read_options(struct launch_state *launch, char *const *argv, int *exit_statusp)
{
    struct hvd_error err;
    if (hvdrun_options_parse(&launch->options, argv, getenv(CONFIG_CLI_VARIABLE), &err) == HVD_OK)
        return HVD_OK;
    *exit_statusp = EXIT_USAGE;
    return say(err.text);
}

/* --help and --version launch nothing. */
static bool only_print(const struct hvdrun_options *options)
{
    if (options->action == HVDRUN_HELP)
        hvdrun_options_help(stdout);
    else if (options->action == HVDRUN_VERSION)
        printf("hvdrun %s\n", PACKAGE_VERSION);
    return options->action != HVDRUN_RUN;
}

static int find_command(struct launch_state *launch, int *exit_statusp)
{
    struct hvd_error err;
    *exit_statusp =
        command_find(launch->options.command[0], getenv("PATH"), launch->path, sizeof(launch->path), &err);
    return *exit_statusp == 0 ? HVD_OK : say(err.text);
}

static int check_descriptors(const struct launch_state *launch)
{
    struct rlimit limit;
    rlim_t needed = (rlim_t)DESCRIPTORS(launch->size, launch->options.output.directory != NULL);
    char sentence[256];
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || needed <= limit.rlim_max)
        return HVD_OK;
    snprintf(sentence, sizeof(sentence),
             "%d ranks need %llu file descriptors, but the hard limit is %llu (`ulimit -Hn`); start fewer, "
             "or raise it",
             launch->size, (unsigned long long)needed, (unsigned long long)limit.rlim_max);
    return say(sentence);
}

/* Threads that are created later inherit the blocked signals. A signal that was ignored when hvdrun started
 * (nohup, a background job of a script) stays ignored. */
static int take_signals(struct launch_state *launch)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2};
    sigset_t mask;
    sigset_t blocked;
    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++) {
        struct sigaction action;
        if (sigaction(handled[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&mask, handled[i]);
    }
    blocked = mask;
    sigaddset(&blocked, SIGCHLD);
    sigaddset(&blocked, SIGPIPE);
    sigprocmask(SIG_BLOCK, &blocked, &launch->signal_mask);
    launch->supervisor.signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return launch->supervisor.signal_fd < 0 ? say("cannot make a signalfd") : HVD_OK;
}

/* Report a request that cannot be met. */
static int refuse(const struct hvd_error *err, int status, int *exit_statusp)
{
    *exit_statusp = status == HVD_ERR_NO_MEMORY ? EXIT_BROKEN : EXIT_USAGE;
    return say(err->text);
}

/* Determine the ranks' environment, with the options in force, and their number. */
static int count_ranks(struct launch_state *launch, int *exit_statusp)
{
    struct hvd_error err;
    char secret[SECRET_TEXT_BYTES];
    if (secret_draw(SECRET_OF_HVDRUN, secret) < 0)
        return say("cannot draw a secret for the job");
    scratch_name_shared(launch->shared_scratch, sizeof(launch->shared_scratch));
    const struct rank_environment settings = {.secret = secret,
                                              .cli = launch->options.cli,
                                              .shared = launch->shared_scratch,
                                              .master_port = place_variables_find_port(),
                                              .colours = isatty(STDOUT_FILENO) ||
                                                         !launch->options.output.prefix ||
                                                         launch->options.output.pty == OUTPUT_PTY_OFF,
                                              .variables = launch->options.variables};
    launch->environment = rank_environment_create(environ, &settings);
    if (launch->environment == NULL)
        return say("memory ran out");
    int status = rank_places_create(&launch->places, &launch->options, launch->environment, &err);
    if (status != HVD_OK)
        return refuse(&err, status, exit_statusp);
    launch->size = rank_places_count(launch->places);
    return HVD_OK;
}

static int make_plan(struct launch_state *launch)
{
    struct hvd_error err;
    const struct hvdrun_options *options = &launch->options;
    gethostname(launch->host, sizeof(launch->host) - 1);
    launch->supervisor.verdict = verdict_create(launch->size, launch->host, options->grace_us);
    if (launch->supervisor.verdict == NULL)
        return say("memory ran out");
    if (scratch_make_name(launch->scratch, sizeof(launch->scratch), &err) != HVD_OK)
        return say(err.text);
    launch->plan = (struct reaper_plan){.size = launch->size,
                                        .path = launch->path,
                                        .arguments = options->command,
                                        .environment = launch->environment,
                                        .scratches = {launch->scratch, launch->shared_scratch},
                                        .grace_us = options->grace_us,
                                        .signal_mask = &launch->signal_mask};
    return HVD_OK;
}

static int fork_reaper(struct launch_state *launch)
{
    struct hvd_error err;
    return reaper_fork(&launch->reaper, &launch->plan, &err) == HVD_OK ? HVD_OK : say(err.text);
}

static int open_server(struct launch_state *launch)
{
    struct hvd_error err;
    struct server_job job = {.host = launch->host, .scratch = launch->scratch, .size = launch->size};
    return server_open(&launch->supervisor.server, &job, &err) == HVD_OK ? HVD_OK : say(err.text);
}

/* Reading the machine's topology takes about as long as starting the server, so both happen at the same time.
 */
static int place_ranks(struct launch_state *launch, int *exit_statusp)
{
    struct hvd_error err;
    int status = rank_places_decide(launch->places, launch->host, &err);
    if (status != HVD_OK)
        return refuse(&err, status, exit_statusp);
    rank_places_print(launch->places);
    return HVD_OK;
}

static int await_server(struct launch_state *launch)
{
    struct hvd_error err;
    return server_await(launch->supervisor.server, &err) == HVD_OK ? HVD_OK : say(err.text);
}

static int open_output(struct launch_state *launch)
{
    struct hvd_error err;
    int status = output_create(&launch->supervisor.output, launch->size, &launch->options.output, &err);
    return status == HVD_OK ? HVD_OK : say(err.text);
}

static void run_job(struct launch_state *launch)
{
    launch->supervisor.plan = &launch->plan;
    launch->supervisor.reaper = &launch->reaper;
    launch->supervisor.places = launch->places;
    supervisor_run(&launch->supervisor);
}

static int exit_status_of(const struct launch_state *launch)
{
    char sentence[1024];
    const struct verdict *verdict = launch->supervisor.verdict;
    verdict_sentence(verdict, sentence, sizeof(sentence));
    if (sentence[0] != 0)
        fprintf(stderr, "%shvdrun: %s\n", output_mid_line(launch->supervisor.output) ? "\n" : "", sentence);
    return verdict_exit_status(verdict);
}

static void shut_down(struct launch_state *launch)
{
    server_close(launch->supervisor.server);
    reaper_close(&launch->reaper, &launch->plan);
}

static void release(struct launch_state *launch)
{
    output_destroy(launch->supervisor.output);
    verdict_destroy(launch->supervisor.verdict);
    rank_places_destroy(launch->places);
    rank_environment_free(launch->environment);
    if (launch->supervisor.signal_fd >= 0)
        close(launch->supervisor.signal_fd);
}

static int run_command_line(void *opaque)
{
    static struct launch_state launch = {.reaper = {0, -1}, .supervisor = {.signal_fd = -1}};
    char *const *argv = opaque;
    int exit_status = EXIT_USAGE;
    open_stdio();
    if (read_options(&launch, argv, &exit_status) != HVD_OK)
        return exit_status;
    if (only_print(&launch.options))
        return EXIT_SUCCESS;
    if (find_command(&launch, &exit_status) != HVD_OK)
        return exit_status;

    exit_status = EXIT_BROKEN;
    bool ready = count_ranks(&launch, &exit_status) == HVD_OK && check_descriptors(&launch) == HVD_OK &&
                 take_signals(&launch) == HVD_OK && make_plan(&launch) == HVD_OK &&
                 fork_reaper(&launch) == HVD_OK;
    if (ready) {
        descriptors_raise(); /* the reaper runs already, so the ranks begin with the user's limit */
        ready = open_server(&launch) == HVD_OK && place_ranks(&launch, &exit_status) == HVD_OK &&
                await_server(&launch) == HVD_OK && open_output(&launch) == HVD_OK;
    }
    if (ready)
        run_job(&launch);
    shut_down(&launch);
    if (ready)
        exit_status = exit_status_of(&launch);
    release(&launch);
    return exit_status;
}

int main(int argc, char **argv)
{
    (void)argc;
    return stack_call(run_command_line, argv);
}
