/* agent.c: an agent of hvdrun: starts and watches ranks on its host, as the hvdrun of the job says: the
 * steps, in order. */
#include "config.h"
#include "tools/hvdrun/agent/agent.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/secret_key.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/env.h"
#include "base/secret.h"
#include "net/connection.h"
#include "pmix_shim/provider.h"
#include "tools/hvdrun/agent/messages.h"
#include "tools/hvdrun/agent/streams.h"
#include "tools/hvdrun/apps.h"
#include "tools/hvdrun/local_starter.h"
#include "tools/hvdrun/print_error.h"
#include "tools/hvdrun/rank_environment.h"
#include "tools/hvdrun/restarts.h"
#include "tools/hvdrun/scratch.h"
#include "tools/hvdrun/site/health_check.h"

extern char **environ;

/* Everything that release frees at the end. */
struct host_agent {
    const struct hvdrun_options *options;
    const struct job_signals *signals;
    struct hvd_config config;
    struct env_job job; /* where hvdrun is */
    struct secure_channel channel;
    struct hvd_log log;
    char host[HOST_NAME_BYTES];   /* the name of this machine */
    struct hvd_error unfit;       /* why --health-check refuses it; "": it does not */
    char hvdrun_host[NI_MAXHOST]; /* the address of hvdrun's */
    int slots, places;            /* of the job, and of this machine */
    struct reaper_app apps[HVDRUN_MAX_APPS];
    char scratch[PATH_MAX], shared_scratch[64];
    char **environment;
    struct rank_places *rank_places;
    struct reaper_plan plan;
    struct post_mortem post_mortem;
    struct reaper reaper;
    struct local_starter starter;
    struct streams *streams;
    int *place_of;   /* [slots]: of the rank that runs there */
    int64_t beat_us; /* when the reaper is told next that this process is not stopped */
    bool ending;     /* the reaper was asked to end the ranks */
    bool asked;      /* by hvdrun */
    bool empty;      /* no process of the job is left here */
};

/* ---- Connect -------------------------------------------------------------------------------------- */

/* Where hvdrun listens; an empty name is the machine of the srun that has started this agent. */
static int read_address(struct host_agent *agent, struct hvd_error *err)
{
    struct env_job *job = &agent->job;
    const char *join = agent->options->join, *secret = getenv(SECRET_VARIABLE);
    const char *colon = strrchr(join, ':');
    const char *of_srun = colon == join ? getenv("SLURM_LAUNCH_NODE_IPADDR") : NULL;
    uint32_t epoch = 0;
    if (colon == join && of_srun == NULL)
        return error_set(err, HVD_ERR_INVALID, "--join %.100s: no host is given; expected HOST:PORT", join);
    int rc = secret_key_check(secret, err);
    if (rc == HVD_OK)
        rc = provider_read_epoch(agent->environment, &epoch, err);
    if (rc != HVD_OK)
        return rc;
    *job = (struct env_job){.epoch = epoch,
                            .server = "hvdrun",
                            .port_from = "--join",
                            .must_agree = "HVD_JOB_KEY must be that of the job",
                            .is_agent = true,
                            .log = &agent->log};
    snprintf(job->master_host, sizeof(job->master_host), "%.*s",
             of_srun != NULL ? (int)strlen(of_srun) : (int)(colon - join), of_srun != NULL ? of_srun : join);
    snprintf(job->master_port, sizeof(job->master_port), "%s", colon + 1);
    secret_key_derive(secret, job->key);
    return HVD_OK;
}

/* As a number, which ranks get too. */
static int name_peer(struct host_agent *agent, struct hvd_error *err)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    char *host = agent->hvdrun_host;
    if (getpeername(agent->channel.fd, (struct sockaddr *)&address, &length) < 0 ||
        getnameinfo((struct sockaddr *)&address, length, host, sizeof(agent->hvdrun_host), NULL, 0,
                    NI_NUMERICHOST) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "the address of hvdrun cannot be told");
    if (strncmp(host, "::ffff:", strlen("::ffff:")) == 0)
        memmove(host, host + strlen("::ffff:"), strlen(host + strlen("::ffff:")) + 1);
    return HVD_OK;
}

static int send_to_hvdrun(struct host_agent *agent, const struct fence_message *message)
{
    struct hvd_error why;
    if (agent->channel.fd < 0)
        return HVD_ERR_RANK_LOST;
    return fence_message_send(&agent->channel, message, &why);
}

static int say_hello(struct host_agent *agent, struct hvd_error *err)
{
    unsigned char bytes[AGENT_MESSAGE_BYTES];
    struct agent_hello self = {.version = PACKAGE_VERSION};
    const struct hvdrun_options *options = agent->options;
    bool invited = options->join[0] != ':';
    struct fence_message hello = {.kind = AGENT_HELLO, .bytes = bytes};
    if (invited)
        hello.number = options->ranks > 0 ? (uint32_t)options->ranks : 1;
    memcpy(self.host, agent->host, sizeof(self.host));
    hello.length = agent_hello_encode(&self, bytes);
    return send_to_hvdrun(agent, &hello) == HVD_OK
               ? HVD_OK
               : error_set(err, HVD_ERR_RANK_LOST, "hvdrun at %s has closed the connection", options->join);
}

/* In place of hello: hvdrun has started this agent, and waits for it. */
static int say_unfit(struct host_agent *agent, struct hvd_error *err)
{
    unsigned char bytes[AGENT_MESSAGE_BYTES];
    const struct fence_message message = {
        .kind = AGENT_UNFIT, .bytes = bytes, .length = agent_unfit_encode(agent->host, &agent->unfit, bytes)};
    return send_to_hvdrun(agent, &message) == HVD_OK
               ? HVD_OK
               : error_set(err, HVD_ERR_RANK_LOST, "%s", agent->unfit.text);
}

static int await_message(struct host_agent *agent, struct fence_message *message, struct hvd_error *why)
{
    int64_t deadline_us = clock_us() + agent->config.start_timeout_us;
    int rc = HVD_IN_PROGRESS;
    while (rc == HVD_IN_PROGRESS && clock_us() < deadline_us) {
        struct pollfd ready = {.fd = agent->channel.fd, .events = POLLIN};
        poll(&ready, 1, clock_ms_until(deadline_us));
        rc = fence_message_receive(&agent->channel, message, why);
    }
    return rc == HVD_IN_PROGRESS ? error_set(why, HVD_ERR_TIMEOUT, "it does not answer") : rc;
}

static int await_welcome(struct host_agent *agent, struct hvd_error *err)
{
    struct hvd_error why = {""};
    struct fence_message message;
    int rc = await_message(agent, &message, &why);
    if (rc == HVD_OK && message.kind == FENCE_FAIL)
        return error_set(err, HVD_ERR_INVALID, "hvdrun at %s refuses this host: %.*s", agent->options->join,
                         (int)(message.length < 300 ? message.length : 300), message.bytes);
    if (rc == HVD_OK && (message.kind != AGENT_WELCOME || message.number == 0 ||
                         message.number > HVDRUN_MAX_ASKED || message.rank > HOST_SLOTS_MAX))
        rc = error_set(&why, HVD_ERR_MISMATCH, "it sent a message of kind %u; is it the same hvd?",
                       message.kind);
    if (rc != HVD_OK)
        return error_set(err, rc, "hvdrun at %s: %s", agent->options->join, why.text);
    agent->slots = (int)message.number;
    agent->places = message.rank > 0 ? (int)message.rank : 1;
    return HVD_OK;
}

static int reach_hvdrun(struct host_agent *agent, struct hvd_error *err)
{
    struct fence_client *client = NULL;
    int64_t deadline_us = clock_us() + agent->config.start_timeout_us;
    int rc = read_address(agent, err);
    if (rc == HVD_OK)
        rc = fence_client_open(&client, &agent->job, deadline_us, err);
    if (rc == HVD_OK)
        rc = fence_client_connect(client, deadline_us, &agent->channel, err);
    fence_client_close(client);
    explicit_bzero(agent->job.key, sizeof(agent->job.key));
    if (rc == HVD_OK)
        rc = name_peer(agent, err);
    if (rc == HVD_OK) /* a lost hvdrun is noticed within the lease that the ranks have */
        connection_set_options(agent->channel.fd, agent->config.lease_us);
    if (rc == HVD_OK)
        rc = agent->unfit.text[0] != 0 ? say_unfit(agent, err) : say_hello(agent, err);
    return rc == HVD_OK && agent->unfit.text[0] == 0 ? await_welcome(agent, err) : rc;
}

/* A refusal is for hvdrun if that has started this agent, which waits for it, and else for the user here. */
static int check_health(struct host_agent *agent, struct hvd_error *err)
{
    int signal_number = 0;
    int rc = health_check(agent->options->health_check, agent->signals, &signal_number, &agent->unfit);
    if (rc == HVD_ERR_STATE && agent->options->join[0] == ':')
        return HVD_OK;
    *err = agent->unfit;
    return rc;
}

/* ---- Prepare -------------------------------------------------------------------------------------- */

static int make_environment(struct host_agent *agent, struct hvd_error *err)
{
    const struct hvdrun_options *options = agent->options;
    scratch_name_shared(agent->shared_scratch, sizeof(agent->shared_scratch));
    const struct rank_environment settings = {.secret = getenv(SECRET_VARIABLE),
                                              .cli = options->cli,
                                              .run_id = options->run_id,
                                              .role = options->output.line_prefix.role,
                                              .max_restarts = options->max_restarts,
                                              .shared = agent->shared_scratch,
                                              .colours = !options->output.prefix ||
                                                         options->output.pty == OUTPUT_PTY_OFF,
                                              .variables = options->variables};
    agent->environment = rank_environment_create(environ, &settings);
    return agent->environment != NULL
               ? config_load(&agent->config, agent->environment, NULL, err)
               : error_set(err, HVD_ERR_NO_MEMORY, "no memory for the environment of the ranks");
}

static int make_plan(struct host_agent *agent, struct hvd_error *err)
{
    int rc = scratch_make_name(agent->scratch, sizeof(agent->scratch), err);
    agent->apps[0].end = agent->slots;
    post_mortem_begin(&agent->post_mortem,
                      agent->shared_scratch[0] != 0 ? agent->shared_scratch : agent->scratch,
                      agent->environment);
    agent->plan = (struct reaper_plan){.size = agent->slots,
                                       .apps = agent->apps,
                                       .app_count = 1,
                                       .environment = agent->environment,
                                       .scratches = {agent->scratch, agent->shared_scratch},
                                       .grace_us = agent->options->grace_us,
                                       .signal_mask = &agent->signals->original,
                                       .beat_us = beat_interval_us(agent->config.lease_us),
                                       .host = agent->host};
    return rc;
}

static int open_stdio(void *arg, const struct starter_rank *rank, int fds[3], struct hvd_error *err)
{
    struct host_agent *agent = arg;
    return streams_add(agent->streams, rank->rank, fds, err);
}

static void send_output(void *arg, int rank, int which, const unsigned char *bytes, size_t length)
{
    send_to_hvdrun(arg,
                   &(struct fence_message){AGENT_OUTPUT, (uint32_t)which, (uint32_t)rank, bytes, length});
}

static int open_streams(struct host_agent *agent, struct hvd_error *err)
{
    const struct output_options *output = &agent->options->output;
    bool terminal = output->pty == OUTPUT_PTY_ON || (output->pty == OUTPUT_PTY_AUTO && output->prefix);
    agent->place_of = calloc((size_t)agent->slots, sizeof(*agent->place_of));
    if (agent->place_of == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a job of %d ranks", agent->slots);
    return streams_create(&agent->streams, agent->slots, terminal, send_output, agent, err);
}

static int prepare(struct host_agent *agent, struct hvd_error *err)
{
    int rc = rank_places_create(&agent->rank_places, agent->options, agent->places, agent->environment, err);
    if (rc == HVD_OK)
        rc = make_plan(agent, err);
    if (rc == HVD_OK)
        rc = reaper_fork(&agent->reaper, &agent->plan, err);
    descriptors_raise();
    if (rc == HVD_OK)
        rc = rank_places_decide(agent->rank_places, agent->host, err);
    if (rc == HVD_OK)
        rc = open_streams(agent, err);
    agent->places = rc == HVD_OK ? rank_places_count(agent->rank_places) : 0;
    agent->starter =
        (struct local_starter){.plan = &agent->plan,
                               .reaper = &agent->reaper,
                               .places = agent->rank_places,
                               .post_mortem = &agent->post_mortem,
                               .host = agent->host,
                               .open_stdio = open_stdio,
                               .arg = agent,
                               .epochs_host = agent->hvdrun_host,
                               .epochs_port = (uint16_t)strtol(agent->job.master_port, NULL, 10)};
    return rc;
}

/* ---- What hvdrun asks for ------------------------------------------------------------------------- */

static void end_ranks(struct host_agent *agent, int signal_number, int first)
{
    if (!agent->ending)
        local_starter_ops.end(&agent->starter, signal_number, first);
    agent->ending = true;
}

/* Places that the host has got since it joined share what the first ones have. */
static int start_rank(struct host_agent *agent, const struct fence_message *message, struct hvd_error *why)
{
    struct starter_rank rank;
    struct launch_place place;
    if (!agent_start_decode(message, agent->slots, &rank, &place))
        return error_set(why, HVD_ERR_MISMATCH, "it asked for a rank that no job has; is it the same hvd?");
    place.local_rank %= agent->places;
    agent->place_of[rank.rank] = place.local_rank;
    return local_starter_start(&agent->starter, &rank, &place, why);
}

static int do_message(struct host_agent *agent, const struct fence_message *message, struct hvd_error *why)
{
    struct local_starter *starter = &agent->starter;
    bool for_one = message->rank < (uint32_t)agent->slots;
    switch (message->kind) {
    case AGENT_START:
        return start_rank(agent, message, why);
    case AGENT_SIGNAL:
        if (for_one)
            local_starter_ops.signal_rank(starter, (int)message->rank, (int)message->number);
        else
            local_starter_ops.signal(starter, (int)message->number);
        return HVD_OK;
    case AGENT_END:
        agent->asked = true;
        end_ranks(agent, (int)message->number, for_one ? (int)message->rank : -1);
        return HVD_OK;
    case AGENT_KILL:
        local_starter_ops.end_now(starter);
        return HVD_OK;
    case AGENT_BEAT:
        send_to_hvdrun(agent, message);
        return HVD_OK;
    case AGENT_TAKEN:
        streams_taken(agent->streams, message->number);
        return HVD_OK;
    default:
        return error_set(why, HVD_ERR_MISMATCH, "it sent a message of kind %u; is it the same hvd?",
                         message->kind);
    }
}

static void lose_hvdrun(struct host_agent *agent, const char *why)
{
    bool expected = agent->asked && agent->empty; /* the job is over */
    secure_channel_close(&agent->channel);
    if (!expected)
        fprintf(stderr, "hvdrun: the agent of %s has lost its hvdrun, and ends its ranks: %s\n", agent->host,
                why);
    end_ranks(agent, SIGTERM, -1);
}

static void serve_hvdrun(struct host_agent *agent)
{
    struct hvd_error why = {""};
    struct fence_message message;
    if (agent->channel.fd < 0)
        return;
    int rc = secure_channel_flush(&agent->channel, &why);
    for (rc = rc < 0 ? rc : HVD_OK; rc == HVD_OK;) {
        rc = fence_message_receive(&agent->channel, &message, &why);
        if (rc == HVD_OK)
            rc = do_message(agent, &message, &why);
    }
    if (rc < 0)
        lose_hvdrun(agent, why.text);
}

/* ---- What it reports ------------------------------------------------------------------------------ */

/* A rank that was ended by someone who has signalled this agent was not ended by hvdrun. */
static void describe_end(struct host_agent *agent, struct agent_report *report)
{
    int rank = report->report.event.rank;
    struct verdict_end *end = &report->report.end;
    streams_drain(agent->streams, rank);
    if (!agent->asked)
        end->stage = VERDICT_RUNNING;
    if (end->wait_status != 0)
        local_starter_explain(&agent->starter, rank, agent->place_of[rank], end->wait_status, &report->facts,
                              report->crash);
}

static void report_end_of_all(struct host_agent *agent)
{
    agent->empty = true;
    streams_finish(agent->streams);
    send_to_hvdrun(agent, &(struct fence_message){.kind = AGENT_EMPTY});
}

static void send_report(struct host_agent *agent, const struct agent_report *report)
{
    unsigned char bytes[AGENT_MESSAGE_BYTES];
    send_to_hvdrun(agent, &(struct fence_message){.kind = AGENT_REPORT,
                                                  .bytes = bytes,
                                                  .length = agent_report_encode(report, bytes)});
}

static void send_reports(struct host_agent *agent)
{
    int rc = 1;
    while (rc > 0) {
        struct agent_report report = {.crash = ""};
        rc = local_starter_ops.next(&agent->starter, &report.report);
        if (rc > 0 && report.report.event.kind == REAPER_ENDED)
            describe_end(agent, &report);
        if (rc > 0 && report.report.event.kind == REAPER_EMPTY)
            report_end_of_all(agent);
        else if (rc > 0)
            send_report(agent, &report);
    }
    if (rc < 0 && !agent->empty) {
        print_error("the reaper, which starts and ends the ranks, was killed");
        secure_channel_close(&agent->channel);
        agent->empty = true;
    }
}

/* ---- The loop ------------------------------------------------------------------------------------- */

static void handle_signals(struct host_agent *agent)
{
    struct signalfd_siginfo info;
    while (read(agent->signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int number = (int)info.ssi_signo;
        if (number == SIGUSR1 || number == SIGUSR2)
            local_starter_ops.signal(&agent->starter, number);
        else if (number != SIGTSTP && number != SIGCONT)
            end_ranks(agent, number, -1);
    }
}

/* Once the ranks have ended, hvdrun closes the connection; if others than hvdrun have ended them, the agent
 * does. */
static bool goes_on(const struct host_agent *agent)
{
    bool sends = agent->channel.fd >= 0 && agent->channel.out.length > 0;
    return !agent->empty || sends || (agent->asked && agent->channel.fd >= 0);
}

static void beat(struct host_agent *agent)
{
    if (clock_us() < agent->beat_us)
        return;
    reaper_beat(&agent->reaper);
    agent->beat_us = clock_us() + agent->plan.beat_us;
}

static void serve(struct host_agent *agent)
{
    while (goes_on(agent)) {
        beat(agent);
        short out = agent->channel.fd >= 0 && agent->channel.out.length > 0 ? POLLOUT : 0;
        struct pollfd fds[] = {
            {.fd = agent->signals->fd, .events = POLLIN},
            {.fd = agent->channel.fd, .events = (short)(POLLIN | out)},
            {.fd = agent->empty ? -1 : local_starter_ops.fd(&agent->starter), .events = POLLIN},
            {.fd = agent->empty ? -1 : streams_fd(agent->streams), .events = POLLIN}};
        if (poll(fds, sizeof(fds) / sizeof(fds[0]), clock_ms_until(agent->beat_us)) < 0)
            continue;
        handle_signals(agent);
        serve_hvdrun(agent);
        streams_work(agent->streams);
        if (!agent->empty)
            send_reports(agent);
    }
}

static void release(struct host_agent *agent)
{
    reaper_close(&agent->reaper, &agent->plan);
    secure_channel_close(&agent->channel);
    streams_destroy(agent->streams);
    rank_places_destroy(agent->rank_places);
    rank_environment_free(agent->environment);
    apps_free(agent->apps);
    free(agent->place_of);
}

int agent_run(const struct hvdrun_options *options, const struct job_signals *signals)
{
    static struct host_agent agent;
    static char name[] = "hvdrun";
    struct hvd_error err = {""};
    int exit_status = EXIT_BROKEN;
    const char *node = getenv("SLURMD_NODENAME");
    agent = (struct host_agent){.options = options, .signals = signals, .channel.fd = -1, .reaper = {0, -1}};
    agent.log = (struct hvd_log){LOG_WARN, log_to_stderr, name};
    gethostname(agent.host, sizeof(agent.host) - 1);
    if (options->join[0] == ':' && node != NULL)
        snprintf(agent.host, sizeof(agent.host), "%s", node);
    if (apps_find(options, agent.apps, &exit_status) == HVD_OK) {
        int rc = make_environment(&agent, &err);
        if (rc == HVD_OK)
            rc = check_health(&agent, &err);
        if (rc == HVD_OK)
            rc = reach_hvdrun(&agent, &err);
        bool unfit = agent.unfit.text[0] != 0;
        if (rc == HVD_OK && !unfit)
            rc = prepare(&agent, &err);
        if (rc == HVD_OK && !unfit)
            serve(&agent);
        else if (rc != HVD_OK)
            print_error(err.text);
        exit_status = rc == HVD_OK && (agent.asked || unfit) ? EXIT_SUCCESS : EXIT_BROKEN;
    }
    release(&agent);
    return exit_status;
}
