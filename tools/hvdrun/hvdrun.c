/* hvdrun.c: start the ranks of a job, here or by another launcher: the steps, in order. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/secret.h"
#include "base/stack.h"
#include "tools/hvdrun/agent/agent.h"
#include "tools/hvdrun/agent/agents_job.h"
#include "tools/hvdrun/events/events.h"
#include "tools/hvdrun/launcher/foreign.h"
#include "tools/hvdrun/launcher/request.h"
#include "tools/hvdrun/print_error.h"
#include "tools/hvdrun/local_job.h"

#define RUN_ID_DIGITS 8

extern char **environ;

/* One hvdrun. */
struct program {
    struct hvdrun_options options;
    struct launch_facts facts;
    struct line_request request;
    struct launch_choice choice;
    struct launch_line line; /* of another launcher */
    struct job_signals signals;
    char run_id[RANDOM_HEX_BYTES]; /* that hvdrun has drawn */
    char host[256];                /* the name of this machine */
    struct launch_events *events;  /* NULL: nobody is told */
    struct agents_request agents;
};

/* If hvdrun was started with one of the descriptors 0, 1 and 2 closed, a pipe or socket would get that number
 * and would be taken for stdin, stdout or stderr. */
static void open_stdio(void)
{
    int fd = 0;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    descriptors_close(&fd);
}

static int read_options(struct program *program, char *const *argv)
{
    struct hvd_error err;
    int status = hvdrun_options_parse(&program->options, argv, getenv(CONFIG_CLI_VARIABLE), &err);
    return status == HVD_OK ? HVD_OK : print_error(err.text);
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

/* Does hvdrun itself start the ranks, here or by agents? */
static bool is_own(const struct program *program)
{
    return program->choice.launcher == LAUNCHER_LOCAL || program->choice.launcher == LAUNCHER_AGENTS;
}

static int choose_launcher(struct program *program)
{
    struct hvd_error err;
    int status = launch_request_read(&program->request, &program->facts, &program->options, environ,
                                     &program->choice, &err);
    if (status == HVD_OK && !is_own(program))
        status = launch_line_write(&program->line, program->choice.launcher, &program->request, &err);
    if (status != HVD_OK)
        return print_error(err.text);
    if (program->options.verbose)
        fprintf(stderr, "hvdrun: launcher %s: %s\n", launcher_name(program->choice.launcher),
                program->choice.why);
    if (program->options.nodes_most > 1 && program->choice.launcher != LAUNCHER_AGENTS)
        fprintf(stderr, "hvdrun: --nnodes %s: the ranks are on this machine only\n",
                program->options.values[LAUNCH_NNODES]);
    if (launcher_warns(&program->facts, &program->choice, &err))
        print_error(err.text);
    return HVD_OK;
}

static int print_launch(const struct program *program)
{
    if (program->choice.launcher == LAUNCHER_AGENTS)
        return agents_job_show(&program->agents, program->choice.why, stdout);
    if (program->choice.launcher == LAUNCHER_LOCAL)
        return local_job_show(&program->options, program->choice.why, stdout);
    launch_line_show(&program->line, program->choice.why, stdout);
    return EXIT_SUCCESS;
}

static void run_once(void *arg, int restart, struct attempt *attempt)
{
    struct program *program = arg;
    if (program->choice.launcher == LAUNCHER_LOCAL)
        local_job_run(&program->options, &program->signals, program->events, restart, attempt);
    else if (program->choice.launcher == LAUNCHER_AGENTS)
        agents_job_run(&program->agents, program->events, attempt);
    else
        foreign_run(&program->line, &program->options, &program->signals, restart, attempt);
}

/* A run that the user has not named gets a name of its own. */
static int name_run(struct program *program)
{
    if (program->options.run_id != NULL)
        return HVD_OK;
    if (random_hex_draw(program->run_id) < 0)
        return print_error("cannot draw a name for the run; give it one by --run-id");
    program->run_id[RUN_ID_DIGITS] = 0;
    program->options.run_id = program->run_id;
    return HVD_OK;
}

static int open_events(struct program *program)
{
    struct hvd_error err;
    gethostname(program->host, sizeof(program->host) - 1);
    const struct launch_events_wish wish = {.events = program->options.events,
                                            .metrics = program->options.metrics,
                                            .run_id = program->options.run_id,
                                            .node = program->host};
    return launch_events_open(&program->events, &wish, &err) == HVD_OK ? HVD_OK : print_error(err.text);
}

static int run_with_restarts(struct program *program)
{
    bool elastic = program->options.fewest > 0; /* then ranks are started again, and not the job */
    int max = elastic ? 0 : program->options.max_restarts;
    return restarts_run(max, run_once, program, &program->signals);
}

/* An agent of another hvdrun is no job of its own. */
static int run_agent(struct program *program)
{
    return agent_run(&program->options, &program->signals);
}

static int run_with_signals(struct program *program, int (*run)(struct program *program))
{
    if (job_signals_take(&program->signals) < 0) {
        print_error("cannot make a signalfd");
        return EXIT_BROKEN;
    }
    int exit_status = run(program);
    close(program->signals.fd);
    return exit_status;
}

static int run_and_tell(struct program *program)
{
    if (open_events(program) != HVD_OK)
        return EXIT_USAGE;
    int exit_status = run_with_signals(program, run_with_restarts);
    launch_events_close(program->events, exit_status);
    return exit_status;
}

static int run_command_line(void *opaque)
{
    static struct program program;
    int exit_status = EXIT_USAGE;
    open_stdio();
    if (read_options(&program, opaque) != HVD_OK)
        return exit_status;
    if (only_print(&program.options))
        return EXIT_SUCCESS;
    program.agents =
        (struct agents_request){.options = &program.options, .signals = &program.signals, .argv = opaque};
    if (program.options.join != NULL)
        exit_status = run_with_signals(&program, run_agent);
    else if (choose_launcher(&program) == HVD_OK && name_run(&program) == HVD_OK)
        exit_status = program.options.dry_run ? print_launch(&program) : run_and_tell(&program);
    launch_line_free(&program.line);
    host_list_free(&program.request.hosts);
    return exit_status;
}

int main(int argc, char **argv)
{
    (void)argc;
    return stack_call(run_command_line, argv);
}
