/* local_job.c: launch the ranks of a job on this machine: the steps, in order. */
#include "config.h"

#include "tools/common/master_port.h"
#include "tools/hvdrun/local_job.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/launch_variables.h"
#include "base/secret.h"
#include "tools/hvdrun/apps.h"
#include "tools/hvdrun/last_line.h"
#include "tools/hvdrun/launcher/line.h"
#include "tools/hvdrun/local_starter.h"
#include "tools/hvdrun/place_variables.h"
#include "tools/hvdrun/print_error.h"
#include "tools/hvdrun/rank_environment.h"
#include "tools/hvdrun/scratch.h"
#include "tools/hvdrun/site/health_check.h"
#include "tools/hvdrun/supervisor.h"

/* two pipes and a PMIx connection for each rank, its two files, and hvdrun's own */
#define DESCRIPTORS(n, files) ((3 + ((files) ? 2 : 0)) * (n) + 64)

extern char **environ;

/* Everything that shut_down and release free at the end. */
struct launch_state {
    const struct hvdrun_options *options;
    const struct job_signals *signals;
    struct launch_events *events;
    struct reaper_app apps[HVDRUN_MAX_APPS];
    int restart_count;
    char restart[16]; /* HVD_RESTART */
    char scratch[PATH_MAX];
    char shared_scratch[64];
    char host[256];
    char **environment; /* shared by all ranks */
    struct rank_places *places;
    struct capacity *capacity;
    int size;  /* ranks at the start */
    int slots; /* ranks that there may be */
    struct reaper_plan plan;
    struct post_mortem post_mortem;
    struct reaper reaper;
    struct survivors survivors;
    struct input input;
    struct local_starter starter;
    struct supervisor supervisor;
};

static int check_descriptors(const struct launch_state *launch)
{
    struct rlimit limit;
    rlim_t needed = (rlim_t)DESCRIPTORS(launch->slots, launch->options->output.directory != NULL);
    char sentence[256];
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || needed <= limit.rlim_max)
        return HVD_OK;
    snprintf(sentence, sizeof(sentence),
             "%d ranks need %llu file descriptors, but the hard limit is %llu (`ulimit -Hn`); start fewer, "
             "or raise it",
             launch->slots, (unsigned long long)needed, (unsigned long long)limit.rlim_max);
    return print_error(sentence);
}

/* Report a request that cannot be met. */
static int refuse_job(const struct hvd_error *err, int status, int *exit_statusp)
{
    *exit_statusp = status == HVD_ERR_NO_MEMORY ? EXIT_BROKEN : EXIT_USAGE;
    return print_error(err->text);
}

static void warn_if_it_cannot_grow(const struct launch_state *launch)
{
    const struct hvdrun_options *options = launch->options;
    if (launch->capacity == NULL && options->ranks > 0 && options->most > options->ranks)
        fprintf(stderr,
                "hvdrun: warning: --max-np=%d: nothing says when there is room for more than %d ranks; "
                "--host-discovery or --hostfile does\n",
                options->most, options->ranks);
}

/* Before anything of the job is there. */
static int check_health(struct launch_state *launch, int *exit_statusp)
{
    struct hvd_error err;
    int signal_number = 0;
    int status = health_check(launch->options->health_check, launch->signals, &signal_number, &err);
    if (status == HVD_ERR_STATE)
        launch_events_host_left_out(launch->events, NULL, 0, err.text);
    if (status == HVD_ERR_STATE || status == HVD_ERR_SHUTDOWN)
        *exit_statusp = status == HVD_ERR_STATE ? VERDICT_EXIT_LACKS : 128 + signal_number;
    return status == HVD_OK ? HVD_OK : print_error(err.text);
}

/* Wait until the hosts of an elastic job have slots for its start, as long as that may take. */
static int await_capacity(struct launch_state *launch, int *exit_statusp)
{
    struct hvd_error err;
    int signal_number = 0;
    const struct hvdrun_options *options = launch->options;
    const struct capacity_hosts hosts = {.here = launch->host};
    if (options->fewest == 0)
        return HVD_OK;
    int status = capacity_open(&launch->capacity, options, &hosts, launch->signals, &err);
    if (status == HVD_OK)
        status = capacity_await(launch->capacity, options->ranks > 0 ? options->ranks : options->fewest,
                                &signal_number, &err);
    warn_if_it_cannot_grow(launch);
    if (status == HVD_OK)
        return HVD_OK;
    refuse_job(&err, status, exit_statusp);
    if (status == HVD_ERR_TIMEOUT || status == HVD_ERR_SHUTDOWN)
        *exit_statusp = status == HVD_ERR_TIMEOUT ? VERDICT_EXIT_LACKS : 128 + signal_number;
    return status;
}

/* How many ranks are asked for, at most? 0: the options do not say. */
static int ask_for_ranks(const struct launch_state *launch)
{
    const struct hvdrun_options *options = launch->options;
    if (options->most > 0)
        return options->most;
    return options->ranks == 0 && launch->capacity != NULL ? capacity_slots(launch->capacity)
                                                           : options->ranks;
}

/* An elastic job begins with as many ranks as there is room for, unless the user says otherwise. */
static int ranks_of_start(const struct launch_state *launch)
{
    const struct hvdrun_options *options = launch->options;
    int room = capacity_slots(launch->capacity);
    if (options->fewest == 0 || options->most == 0 || options->ranks > 0)
        return options->ranks > 0 ? options->ranks : launch->slots;
    return room < launch->slots ? room : launch->slots;
}

/* Determine the ranks' environment, with the options in force, and their number. */
static int count_ranks(struct launch_state *launch, int *exit_statusp)
{
    struct hvd_error err;
    char secret[SECRET_TEXT_BYTES];
    if (secret_draw(SECRET_OF_HVDRUN, secret) < 0)
        return print_error("cannot draw a secret for the job");
    scratch_name_shared(launch->shared_scratch, sizeof(launch->shared_scratch));
    const struct rank_environment settings = {
        .secret = secret,
        .cli = launch->options->cli,
        .shared = launch->shared_scratch,
        .master_port = master_port_find(),
        .colours = isatty(STDOUT_FILENO) || !launch->options->output.prefix ||
                   launch->options->output.pty == OUTPUT_PTY_OFF,
        .restart = launch->options->max_restarts > 0 ? launch->restart : NULL,
        .run_id = launch->options->run_id,
        .role = launch->options->output.line_prefix.role,
        .max_restarts = launch->options->max_restarts,
        .variables = launch->options->variables};
    launch->environment = rank_environment_create(environ, &settings);
    if (launch->environment == NULL)
        return print_error("no memory for the environment of the ranks");
    int status = rank_places_create(&launch->places, launch->options, ask_for_ranks(launch),
                                    launch->environment, &err);
    if (status == HVD_OK && launch->options->fewest == 0) /* an elastic job may grow */
        status = hvdrun_options_check_only_rank(launch->options, rank_places_count(launch->places), &err);
    if (status != HVD_OK)
        return refuse_job(&err, status, exit_statusp);
    launch->slots = rank_places_count(launch->places);
    launch->size = ranks_of_start(launch);
    launch->apps[launch->options->app_count - 1].end =
        launch->slots; /* of a single program without -n, too */
    return HVD_OK;
}

static int begin_survivors(struct launch_state *launch, int *exit_statusp)
{
    struct hvd_error err;
    const struct hvdrun_options *options = launch->options;
    const struct survivors_wish wish = {.size = launch->size,
                                        .slots = launch->slots,
                                        .fewest = options->fewest,
                                        .max_restarts = options->max_restarts,
                                        .timeout_us = options->elastic_timeout_us,
                                        .reset_limit = options->reset_limit,
                                        .grace_us = options->grace_us,
                                        .cooldown = options->cooldown,
                                        .may_grow = capacity_changes(launch->capacity)};
    int status = survivors_open(&launch->survivors, &wish, launch->environment, &err);
    return status == HVD_OK ? HVD_OK : refuse_job(&err, status, exit_statusp);
}

static int make_plan(struct launch_state *launch)
{
    struct hvd_error err;
    const struct hvdrun_options *options = launch->options;
    launch->supervisor.verdict = verdict_create(launch->slots);
    if (launch->supervisor.verdict == NULL)
        return print_error("no memory for the state of the ranks");
    if (scratch_make_name(launch->scratch, sizeof(launch->scratch), &err) != HVD_OK)
        return print_error(err.text);
    post_mortem_begin(&launch->post_mortem,
                      launch->shared_scratch[0] != 0 ? launch->shared_scratch : launch->scratch,
                      launch->environment);
    launch->plan = (struct reaper_plan){.size = launch->slots,
                                        .apps = launch->apps,
                                        .app_count = options->app_count,
                                        .environment = launch->environment,
                                        .scratches = {launch->scratch, launch->shared_scratch},
                                        .grace_us = options->grace_us,
                                        .signal_mask = &launch->signals->original};
    return HVD_OK;
}

static int fork_reaper(struct launch_state *launch)
{
    struct hvd_error err;
    return reaper_fork(&launch->reaper, &launch->plan, &err) == HVD_OK ? HVD_OK : print_error(err.text);
}

static int open_server(struct launch_state *launch)
{
    struct hvd_error err;
    struct server_job job = {.host = launch->host, .scratch = launch->scratch, .size = launch->size};
    return server_open(&launch->supervisor.server, &job, &err) == HVD_OK ? HVD_OK : print_error(err.text);
}

/* Reading the machine's topology takes about as long as starting the server, so both happen at the same time.
 */
static int place_ranks(struct launch_state *launch, int *exit_statusp)
{
    struct hvd_error err;
    int status = rank_places_decide(launch->places, launch->host, &err);
    if (status != HVD_OK)
        return refuse_job(&err, status, exit_statusp);
    rank_places_print(launch->places);
    return HVD_OK;
}

static int await_server(struct launch_state *launch)
{
    struct hvd_error err;
    return server_await(launch->supervisor.server, &err) == HVD_OK ? HVD_OK : print_error(err.text);
}

static int open_output(struct launch_state *launch)
{
    struct hvd_error err;
    int status = output_create(&launch->supervisor.output, launch->slots, &launch->options->output, &err);
    return status == HVD_OK ? HVD_OK : print_error(err.text);
}

static int tell_of_start(struct launch_state *launch)
{
    struct hvd_error err;
    const struct launch_events_job job = {.restart = launch->restart_count,
                                          .ranks = launch->size,
                                          .slots = launch->slots,
                                          .room = capacity_slots(launch->capacity)};
    int status = launch_events_job_started(launch->events, &job, &err);
    return status == HVD_OK ? HVD_OK : print_error(err.text);
}

/* Rank 0 of the start reads hvdrun's stdin. */
static int open_stdio(void *arg, const struct starter_rank *rank, int fds[3], struct hvd_error *err)
{
    struct launch_state *launch = arg;
    int status = output_add(launch->supervisor.output, rank->rank, fds, err);
    return status == HVD_OK && rank->rank == 0 && !rank->is_newcomer
               ? input_open(&launch->input, &fds[0], err)
               : status;
}

static void run_job(struct launch_state *launch)
{
    launch->supervisor.events = launch->events;
    launch->input.pipe_fd = -1;
    launch->starter = (struct local_starter){.plan = &launch->plan,
                                             .reaper = &launch->reaper,
                                             .places = launch->places,
                                             .post_mortem = &launch->post_mortem,
                                             .host = launch->host,
                                             .open_stdio = open_stdio,
                                             .arg = launch,
                                             .server = launch->supervisor.server,
                                             .epochs_host = "127.0.0.1",
                                             .epochs_port = epoch_server_port(launch->survivors.server)};
    launch->supervisor.size = launch->size;
    launch->supervisor.plan = &launch->plan;
    launch->supervisor.capacity = launch->capacity;
    launch->supervisor.signal_fd = launch->signals->fd;
    launch->supervisor.starter = (struct starter){&local_starter_ops, &launch->starter};
    launch->supervisor.places = launch->places;
    launch->supervisor.survivors = &launch->survivors;
    launch->supervisor.input = &launch->input;
    supervisor_run(&launch->supervisor);
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
    survivors_close(&launch->survivors);
    capacity_close(launch->capacity);
    rank_environment_free(launch->environment);
    apps_free(launch->apps);
}

static void begin(struct launch_state *launch, const struct hvdrun_options *options,
                  const struct job_signals *signals, int restart)
{
    *launch = (struct launch_state){.options = options, .signals = signals, .reaper = {0, -1}};
    launch->restart_count = restart;
    snprintf(launch->restart, sizeof(launch->restart), "%d", restart);
    gethostname(launch->host, sizeof(launch->host) - 1);
}

void local_job_run(const struct hvdrun_options *options, const struct job_signals *signals,
                   struct launch_events *events, int restart, struct attempt *attempt)
{
    static struct launch_state launch;
    begin(&launch, options, signals, restart);
    launch.events = events;
    int *exit_statusp = &attempt->exit_status;
    bool ready = apps_find(options, launch.apps, exit_statusp) == HVD_OK;
    if (ready) {
        *exit_statusp = EXIT_BROKEN;
        ready = check_health(&launch, exit_statusp) == HVD_OK &&
                await_capacity(&launch, exit_statusp) == HVD_OK &&
                count_ranks(&launch, exit_statusp) == HVD_OK && check_descriptors(&launch) == HVD_OK &&
                begin_survivors(&launch, exit_statusp) == HVD_OK && make_plan(&launch) == HVD_OK &&
                fork_reaper(&launch) == HVD_OK;
    }
    if (ready) {
        descriptors_raise(); /* the reaper runs already, so the ranks begin with the user's limit */
        ready = open_server(&launch) == HVD_OK && place_ranks(&launch, exit_statusp) == HVD_OK &&
                await_server(&launch) == HVD_OK && open_output(&launch) == HVD_OK &&
                tell_of_start(&launch) == HVD_OK;
    }
    if (ready) {
        run_job(&launch);
        last_line_print(&launch.supervisor);
        *exit_statusp = verdict_exit_status(launch.supervisor.verdict);
        attempt->may_restart = verdict_may_restart(launch.supervisor.verdict);
    }
    shut_down(&launch);
    release(&launch);
}

static void show_app(const struct hvdrun_app *app, int ranks, FILE *to)
{
    fprintf(to, "# %d x:", ranks);
    for (int i = 0; i < hvdrun_app_words(app); i++) {
        fputc(' ', to);
        show_word(hvdrun_app_word(app, i), to);
    }
    fputc('\n', to);
}

/* Is the variable of [entry] in [environment] with the same value? */
static bool is_in(const char *entry, char *const *environment)
{
    for (; *environment != NULL; environment++) {
        if (strcmp(entry, *environment) == 0)
            return true;
    }
    return false;
}

int local_job_show(const struct hvdrun_options *options, const char *why, FILE *to)
{
    static struct launch_state launch;
    int exit_status = EXIT_BROKEN;
    begin(&launch, options, NULL, 0);
    if (count_ranks(&launch, &exit_status) == HVD_OK) {
        exit_status = EXIT_SUCCESS;
        fprintf(to, "# hvdrun starts %d rank%s on this machine itself: %s\n", launch.size,
                launch.size == 1 ? "" : "s", why);
        for (char **entry = launch.environment; *entry != NULL; entry++) {
            bool is_secret = strncmp(*entry, SECRET_VARIABLE "=", strlen(SECRET_VARIABLE "=")) == 0;
            if (is_secret || is_in(*entry, environ))
                continue;
            fprintf(to, "export %.*s", (int)strcspn(*entry, "=") + 1, *entry);
            show_word(strchr(*entry, '=') + 1, to);
            fputc('\n', to);
        }
        fputs("# and " SECRET_VARIABLE ", a secret, and for each rank those of its place, such as RANK\n",
              to);
        for (int i = 0; i < options->app_count; i++)
            show_app(&options->apps[i], options->apps[i].ranks > 0 ? options->apps[i].ranks : launch.size,
                     to);
    }
    release(&launch);
    return exit_status;
}
