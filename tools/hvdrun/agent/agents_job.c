/* agents_job.c: an elastic job on several nodes of a Slurm job: the steps, in order. hvdrun decides the
 * epochs, and agents start and watch the ranks. */
#include "config.h"
#include "tools/hvdrun/agent/agents_job.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/secret_key.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/env.h"
#include "base/launch_variables.h"
#include "base/secret.h"
#include "options/parse.h"
#include "tools/hvdrun/agent/agent_steps.h"
#include "tools/hvdrun/agent/agents.h"
#include "tools/hvdrun/last_line.h"
#include "tools/hvdrun/launcher/hosts.h"
#include "tools/hvdrun/print_error.h"
#include "tools/hvdrun/rank_environment.h"
#include "tools/hvdrun/supervisor.h"

#define LOOK_US   INT64_C(1000000) /* between two looks at the start, if nothing happens */
#define OTHERS_US INT64_C(5000000) /* how long a job that could begin waits for agents of other hosts */

extern char **environ;

/* Everything that release frees at the end. */
struct agents_job {
    const struct agents_request *request;
    const struct hvdrun_options *options;
    const char *secret; /* the user's, with which other hosts may join, or that which is drawn */
    char drawn[SECRET_TEXT_BYTES];
    char **environment; /* of the ranks, as far as hvdrun needs it */
    struct hvd_config config;
    struct host_list allocation;
    struct capacity *capacity;
    struct survivors survivors;
    struct agents *agents;
    struct reaper_app apps[1]; /* for messages */
    struct reaper_plan plan;
    struct input input;
    struct supervisor supervisor;
    int64_t enough_us; /* since when enough agents have come to begin; 0: they have not */
    int size;          /* ranks at the start */
    int slots;         /* ranks that there may be */
};

/* Report a request that cannot be met, or what is not there in time; if nothing has failed, nothing. */
static int report(const struct hvd_error *err, int status, int *exit_statusp)
{
    if (status == HVD_OK)
        return HVD_OK;
    *exit_statusp = status == HVD_ERR_NO_MEMORY || status == HVD_ERR_SYSTEM ? EXIT_BROKEN
                    : status == HVD_ERR_TIMEOUT                             ? VERDICT_EXIT_LACKS
                                                                            : EXIT_USAGE;
    return print_error(err->text);
}

/* ---- Before there are agents ---------------------------------------------------------------------- */

static int take_secret(struct agents_job *job, struct hvd_error *err)
{
    const char *present = environment_value(environ, SECRET_VARIABLE);
    if (present != NULL && !secret_is_drawn(present)) {
        job->secret = present;
        return secret_key_check(present, err);
    }
    job->secret = job->drawn;
    return secret_draw(SECRET_OF_HVDRUN, job->drawn) < 0
               ? error_set(err, HVD_ERR_SYSTEM, "cannot draw a secret for the job")
               : HVD_OK;
}

static int list_nodes(const struct hvdrun_options *options, struct host_list *list, struct hvd_error *err)
{
    int slots = hvdrun_option_given(options, LAUNCH_NPROC) ? options->slots_per_host : 0;
    return host_list_of_slurm(list, environ, slots, err);
}

static int read_environment(struct agents_job *job, struct hvd_error *err)
{
    const struct rank_environment settings = {
        .secret = job->secret, .cli = job->options->cli, .shared = "", .variables = job->options->variables};
    job->environment = rank_environment_create(environ, &settings);
    if (job->environment == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the environment of the ranks");
    int rc = config_load(&job->config, job->environment, NULL, err);
    return rc == HVD_OK ? list_nodes(job->options, &job->allocation, err) : rc;
}

/* Until a script has said which hosts there are, the nodes of the Slurm job count. */
static void count_slots(struct agents_job *job)
{
    const struct hvdrun_options *options = job->options;
    int room = host_list_slots(&job->allocation);
    job->slots = options->most > 0 ? options->most : options->ranks > 0 ? options->ranks : room;
    job->size = options->ranks > 0 ? options->ranks : room < job->slots ? room : job->slots;
    job->size = job->size > options->fewest ? job->size : options->fewest;
    job->slots = job->size > job->slots ? job->size : job->slots;
}

static int check_slots(const struct agents_job *job, struct hvd_error *err)
{
    if (job->slots <= HVDRUN_MAX_RANKS)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "a job of agents with %d ranks is asked for; expected at most %d: give fewer by -n or "
                     "--max-np",
                     job->slots, HVDRUN_MAX_RANKS);
}

static int begin_survivors(struct agents_job *job, struct hvd_error *err)
{
    const struct hvdrun_options *options = job->options;
    const struct survivors_wish wish = {.size = job->size,
                                        .slots = job->slots,
                                        .fewest = options->fewest,
                                        .max_restarts = options->max_restarts,
                                        .timeout_us = options->elastic_timeout_us,
                                        .reset_limit = options->reset_limit,
                                        .grace_us = options->grace_us,
                                        .cooldown = options->cooldown,
                                        .may_grow = capacity_changes(job->capacity),
                                        .has_agents = true};
    return survivors_open(&job->survivors, &wish, job->environment, err);
}

static int open_agents(struct agents_job *job, struct hvd_error *err)
{
    const struct agents_plan plan = {.hosts = {.slots = job->slots,
                                               .launch = {.argv = job->request->argv,
                                                          .run_id = job->options->run_id,
                                                          .secret = job->secret,
                                                          .signals = job->request->signals},
                                               .allocation = &job->allocation,
                                               .capacity = job->capacity,
                                               .cooldown = job->options->cooldown,
                                               .events = job->supervisor.events},
                                     .lease_us = job->config.lease_us,
                                     .grace_us = job->options->grace_us,
                                     .survivors = &job->survivors,
                                     .output = job->supervisor.output};
    return agents_open(&job->agents, &plan, err);
}

/* Nobody else knows a secret that was drawn. */
static void say_where_to_join(const struct agents_job *job, const char *here)
{
    if (job->secret != job->drawn)
        fprintf(
            stderr,
            "hvdrun: other hosts join by hvdrun --join=%s:%u -n SLOTS, with the HVD_JOB_KEY of this job\n",
            here, epoch_server_port(job->survivors.server));
}

static int prepare(struct agents_job *job, struct hvd_error *err)
{
    char here[HOST_NAME_BYTES] = "";
    const struct capacity_hosts hosts = {.here = here, .slurm = &job->allocation};
    gethostname(here, sizeof(here) - 1);
    int rc = take_secret(job, err);
    if (rc == HVD_OK)
        rc = read_environment(job, err);
    if (rc == HVD_OK)
        rc = capacity_open(&job->capacity, job->options, &hosts, job->request->signals, err);
    if (rc == HVD_OK) {
        count_slots(job);
        rc = check_slots(job, err);
    }
    if (rc == HVD_OK)
        rc = begin_survivors(job, err);
    if (rc == HVD_OK)
        rc = output_create(&job->supervisor.output, job->slots, &job->options->output, err);
    job->supervisor.verdict = verdict_create(job->slots);
    if (rc == HVD_OK && job->supervisor.verdict == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for the state of the ranks");
    if (rc == HVD_OK)
        rc = open_agents(job, err);
    if (rc == HVD_OK)
        say_where_to_join(job, here);
    return rc;
}

/* ---- The wait for agents -------------------------------------------------------------------------- */

/* It begins with the first hosts, so that it waits a while for agents that have not come yet. */
static bool may_begin(struct agents_job *job)
{
    int places = agents_places(job->agents);
    int needed = job->options->ranks > 0 ? job->size : job->options->fewest;
    if (places < needed)
        job->enough_us = 0;
    else if (job->enough_us == 0)
        job->enough_us = clock_us();
    return places >= needed && (!agents_are_coming(job->agents) || clock_us() >= job->enough_us + OTHERS_US);
}

/* Nothing is there to wait for: no agent comes, and no script can name other hosts. */
static bool is_hopeless(const struct agents_job *job)
{
    return !agents_are_coming(job->agents) && !agents_will_start(job->agents) &&
           !capacity_changes(job->capacity);
}

static int report_lack(const struct agents_job *job, struct hvd_error *err)
{
    char limit[32];
    int places = agents_places(job->agents);
    format_time(job->options->elastic_timeout_us, limit, sizeof(limit));
    return error_set(err, HVD_ERR_TIMEOUT,
                     "the job begins with %d ranks, but the hosts whose agent has come have %d slot%s%s%s",
                     job->options->ranks > 0 ? job->size : job->options->fewest, places,
                     places == 1 ? "" : "s", is_hopeless(job) ? "" : " after ",
                     is_hopeless(job) ? "" : limit);
}

/* Sleep until something happens. Returns 0, or the signal that asks hvdrun to end. */
static int sleep_until_news(const struct agents_job *job)
{
    const struct job_signals *signals = job->request->signals;
    struct pollfd fds[] = {{.fd = signals->fd, .events = POLLIN},
                           {.fd = epoch_server_fd(job->survivors.server), .events = POLLIN},
                           {.fd = agents_fd(job->agents), .events = POLLIN},
                           {.fd = capacity_fd(job->capacity), .events = POLLIN}};
    poll(fds, sizeof(fds) / sizeof(fds[0]), clock_ms_until(clock_us() + LOOK_US));
    return fds[0].revents != 0 ? job_signals_sleep(signals, clock_us() + 1) : 0;
}

static int await_agents(struct agents_job *job, int *exit_statusp)
{
    struct hvd_error err = {""};
    int signal_number = 0;
    int64_t deadline_us = clock_us() + job->options->elastic_timeout_us;
    for (;;) {
        capacity_work(job->capacity);
        epoch_server_work(job->survivors.server);
        agents_gather(job->agents);
        if (may_begin(job))
            return HVD_OK;
        bool silent = job->capacity != NULL && capacity_hosts(job->capacity) == NULL;
        if (silent && capacity_complaint(job->capacity)[0] != 0)
            return report(&err, error_set(&err, HVD_ERR_INVALID, "%s", capacity_complaint(job->capacity)),
                          exit_statusp);
        if (!silent && (is_hopeless(job) || clock_us() >= deadline_us))
            return report(&err, report_lack(job, &err), exit_statusp);
        signal_number = sleep_until_news(job);
        if (signal_number == 0)
            continue;
        *exit_statusp = 128 + signal_number;
        error_set(&err, HVD_ERR_SHUTDOWN, "interrupted by signal %d (%s) before the job began", signal_number,
                  strsignal(signal_number));
        return print_error(err.text);
    }
}

/* ---- The job -------------------------------------------------------------------------------------- */

/* With as many ranks as there are places. */
static int begin(struct agents_job *job, struct hvd_error *err)
{
    int places = agents_places(job->agents);
    job->size = places < job->size ? places : job->size;
    survivors_begin_with(&job->survivors, job->size);
    const struct launch_events_job event = {.ranks = job->size, .slots = job->slots, .room = places};
    return launch_events_job_started(job->supervisor.events, &event, err);
}

static void run(struct agents_job *job)
{
    job->apps[0].path = hvdrun_app_word(&job->options->apps[0], 0);
    job->plan = (struct reaper_plan){
        .size = job->slots, .apps = job->apps, .app_count = 1, .grace_us = job->options->grace_us};
    job->input.pipe_fd = -1;
    struct supervisor *supervisor = &job->supervisor;
    verdict_hears_in_any_order(supervisor->verdict);
    supervisor->size = job->size;
    supervisor->plan = &job->plan;
    supervisor->starter = (struct starter){&agents_ops, job->agents};
    supervisor->survivors = &job->survivors;
    supervisor->capacity = job->capacity;
    supervisor->input = &job->input;
    supervisor->signal_fd = job->request->signals->fd;
    agents_ops.look(job->agents);
    supervisor_run(supervisor);
    last_line_print(supervisor);
}

static void release(struct agents_job *job)
{
    agents_close(job->agents);
    output_destroy(job->supervisor.output);
    verdict_destroy(job->supervisor.verdict);
    survivors_close(&job->survivors);
    capacity_close(job->capacity);
    host_list_free(&job->allocation);
    rank_environment_free(job->environment);
    explicit_bzero(job->drawn, sizeof(job->drawn));
}

void agents_job_run(const struct agents_request *request, struct launch_events *events,
                    struct attempt *attempt)
{
    static struct agents_job job;
    struct hvd_error err = {""};
    int *exit_statusp = &attempt->exit_status;
    job = (struct agents_job){.request = request, .options = request->options, .supervisor.events = events};
    descriptors_raise();
    bool ready = report(&err, prepare(&job, &err), exit_statusp) == HVD_OK &&
                 await_agents(&job, exit_statusp) == HVD_OK &&
                 report(&err, begin(&job, &err), exit_statusp) == HVD_OK;
    if (ready) {
        run(&job);
        *exit_statusp = verdict_exit_status(job.supervisor.verdict);
    }
    release(&job);
}

int agents_job_show(const struct agents_request *request, const char *why, FILE *to)
{
    struct hvd_error err = {""};
    struct host_list hosts = {NULL, 0, 0};
    struct words words = {.list = NULL};
    const struct agent_launch launch = {.argv = request->argv, .run_id = request->options->run_id};
    int rc = list_nodes(request->options, &hosts, &err);
    if (rc == HVD_OK)
        agent_steps_line(&words, &launch, &hosts, request->argv[0], "PORT");
    if (rc == HVD_OK && words.failed)
        rc = error_set(&err, HVD_ERR_NO_MEMORY, "no memory for the command line of srun");
    if (rc == HVD_OK) {
        const struct launch_line line = {.words = words};
        launch_line_show(&line, why, to);
    } else {
        print_error(err.text);
    }
    words_free(&words);
    host_list_free(&hosts);
    return rc == HVD_OK ? EXIT_SUCCESS : EXIT_BROKEN;
}
