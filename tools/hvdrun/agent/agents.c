/* agents.c: hvdrun's end of its agents, one on each of several nodes, which start and watch the ranks there.
 */
#include "config.h"
#include "tools/hvdrun/agent/agents.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "net/connection.h"
#include "tools/hvdrun/agent/messages.h"

/* How long ranks may take to end once they were killed: longer than a reaper tries. */
#define SILENCE_US INT64_C(12000000)

#define NO_HOST   (-1)
#define LOST_HOST (-2) /* of a rank that could not be started, as its host was lost before */

/* A connection with an agent. */
struct agent_link {
    struct secure_channel channel; /* its fd is -1 when it has ended */
    char from[EPOCH_AGENT_BYTES];
    int host;         /* NO_HOST: it has not said so yet */
    uint32_t untaken; /* bytes of output that it does not know to be taken */
    int unanswered;   /* beats since it was heard */
    bool empty;       /* no process of the job is left there */
    bool waits;       /* for room in its socket */
};

/* The traces of a rank that has failed. */
struct traces {
    struct verdict_facts facts;
    char crash[CRASH_TEXT_BYTES];
};

struct agents {
    struct agents_plan plan;
    struct agent_hosts hosts;
    struct agent_link *links;
    int link_count;
    int *running;                 /* [slots]: the host of its rank, or NO_HOST, or LOST_HOST */
    struct traces **traces;       /* [slots]: of the last failure; NULL: none */
    bool *used, *was_used, *room; /* [slots] */
    int turn;                     /* the link that is served next */
    bool said_empty;
    int timer_fd; /* at its time a host returns; once the job ends, agents that still have ranks are lost */
    int64_t return_us; /* when that is of a host */
    int beat_fd;       /* a timer: when the agents are sent the next beat */
    int epoll_fd;
};

/* ---- Begin and end ------------------------------------------------------------------------------ */

static int open_descriptors(struct agents *agents, struct hvd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    const struct timespec interval = clock_timespec(beat_interval_us(agents->plan.lease_us));
    agents->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    agents->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    agents->beat_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (agents->epoll_fd >= 0 && agents->timer_fd >= 0 && agents->beat_fd >= 0 &&
        timerfd_settime(agents->beat_fd, 0, &(struct itimerspec){interval, interval}, NULL) == 0 &&
        epoll_ctl(agents->epoll_fd, EPOLL_CTL_ADD, agents->timer_fd, &event) == 0 &&
        epoll_ctl(agents->epoll_fd, EPOLL_CTL_ADD, agents->beat_fd, &event) == 0)
        return HVD_OK;
    return error_set_errno(err, "cannot watch the agents (epoll, timerfd)");
}

static int make_slots(struct agents *agents, struct hvd_error *err)
{
    size_t slots = (size_t)agents->plan.hosts.slots;
    agents->running = calloc(slots, sizeof(*agents->running));
    agents->traces = calloc(slots, sizeof(*agents->traces));
    agents->used = calloc(3 * slots, sizeof(*agents->used));
    if (agents->running == NULL || agents->traces == NULL || agents->used == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a job of %zu ranks", slots);
    agents->was_used = agents->used + slots;
    agents->room = agents->used + 2 * slots;
    for (size_t rank = 0; rank < slots; rank++)
        agents->running[rank] = NO_HOST;
    return HVD_OK;
}

int agents_open(struct agents **agentsp, const struct agents_plan *plan, struct hvd_error *err)
{
    struct agents *agents = calloc(1, sizeof(*agents));
    if (agents == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the agents of hvdrun");
    agents->plan = *plan;
    agents->return_us = CAPACITY_NEVER;
    int rc = open_descriptors(agents, err);
    if (rc == HVD_OK)
        rc = make_slots(agents, err);
    if (rc == HVD_OK)
        rc = agent_hosts_open(&agents->hosts, &plan->hosts, agents->epoll_fd, err);
    if (rc == HVD_OK)
        *agentsp = agents;
    else
        agents_close(agents);
    return rc;
}

void agents_close(struct agents *agents)
{
    if (agents == NULL)
        return;
    for (int i = 0; i < agents->link_count; i++)
        secure_channel_close(&agents->links[i].channel);
    agent_hosts_close(&agents->hosts);
    for (int rank = 0; agents->traces != NULL && rank < agents->plan.hosts.slots; rank++)
        free(agents->traces[rank]);
    descriptors_close(&agents->timer_fd);
    descriptors_close(&agents->beat_fd);
    descriptors_close(&agents->epoll_fd);
    free(agents->links);
    free(agents->running);
    free(agents->traces);
    free(agents->used);
    free(agents);
}

int agents_fd(const struct agents *agents)
{
    return agents->epoll_fd;
}

/* ---- Connections ---------------------------------------------------------------------------------- */

static void close_link(struct agents *agents, struct agent_link *link, const char *why)
{
    secure_channel_close(&link->channel);
    if (link->host >= 0)
        agent_hosts_lose(&agents->hosts, link->host, why);
    link->host = NO_HOST;
}

/* What had no room in the socket is sent on when there is some. */
static void watch(const struct agents *agents, struct agent_link *link)
{
    bool waits = link->channel.out.length > 0;
    struct epoll_event event = {.events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN};
    if (link->channel.fd >= 0 && waits != link->waits)
        epoll_ctl(agents->epoll_fd, EPOLL_CTL_MOD, link->channel.fd, &event);
    link->waits = waits;
}

static void send_to(struct agents *agents, struct agent_link *link, const struct fence_message *message)
{
    struct hvd_error why = {""};
    if (link->channel.fd >= 0 && fence_message_send(&link->channel, message, &why) != HVD_OK)
        close_link(agents, link, why.text);
    watch(agents, link);
}

static struct agent_link *link_of(struct agents *agents, int host)
{
    for (int i = 0; host >= 0 && i < agents->link_count; i++)
        if (agents->links[i].channel.fd >= 0 && agents->links[i].host == host)
            return &agents->links[i];
    return NULL;
}

static void send_to_all(struct agents *agents, const struct fence_message *message)
{
    for (int i = 0; i < agents->link_count; i++)
        if (agents->links[i].host >= 0)
            send_to(agents, &agents->links[i], message);
}

static struct agent_link *add_link(struct agents *agents)
{
    int i = 0;
    while (i < agents->link_count && agents->links[i].channel.fd >= 0)
        i++;
    if (i < agents->link_count)
        return &agents->links[i];
    struct agent_link *links = realloc(agents->links, ((size_t)i + 1) * sizeof(*links));
    if (links == NULL)
        return NULL;
    agents->links = links;
    agents->link_count++;
    return &links[i];
}

static void accept_agents(struct agents *agents)
{
    struct secure_channel channel;
    char from[EPOCH_AGENT_BYTES];
    struct epoll_event event = {.events = EPOLLIN};
    while (epoch_server_take_agent(agents->plan.survivors->server, &channel, from)) {
        struct agent_link *link = add_link(agents);
        if (link == NULL || epoll_ctl(agents->epoll_fd, EPOLL_CTL_ADD, channel.fd, &event) < 0) {
            secure_channel_close(&channel);
            continue;
        }
        connection_set_options(channel.fd, agents->plan.lease_us);
        *link = (struct agent_link){.channel = channel, .host = NO_HOST};
        snprintf(link->from, sizeof(link->from), "%s", from);
    }
}

static void turn_away(struct agents *agents, struct agent_link *link, const char *sentence)
{
    send_to(agents, link,
            &(struct fence_message){FENCE_FAIL, 0, 0, (const unsigned char *)sentence, strlen(sentence)});
    if (link->channel.fd >= 0)
        close_link(agents, link, sentence);
}

static void refuse(struct agents *agents, struct agent_link *link, const char *sentence)
{
    fprintf(stderr, "hvdrun: an agent at %s was refused: %s\n", link->from, sentence);
    turn_away(agents, link, sentence);
}

/* The file of hvdrun may have been replaced since the job began, here or on that host. Its ranks would be of
 * another hvd than the others. */
static void refuse_version(struct agents *agents, struct agent_link *link, const struct agent_hello *hello)
{
    struct hvd_error why;
    error_set(
        &why, HVD_ERR_MISMATCH,
        "it has hvd %s now, and this job was started with hvd %s; install that again, or end the job and "
        "start it again",
        hello->version, PACKAGE_VERSION);
    if (agent_hosts_refuse(&agents->hosts, hello->host, why.text))
        turn_away(agents, link, why.text);
    else
        refuse(agents, link, why.text);
}

static void welcome(struct agents *agents, struct agent_link *link, int host)
{
    link->host = host;
    send_to(agents, link,
            &(struct fence_message){.kind = AGENT_WELCOME,
                                    .number = (uint32_t)agents->plan.hosts.slots,
                                    .rank = (uint32_t)agents->hosts.seats.hosts[host].places});
}

static int take_hello(struct agents *agents, struct agent_link *link, const struct fence_message *message,
                      struct hvd_error *why)
{
    struct agent_hello hello;
    struct hvd_error refusal = {""};
    if (message->kind != AGENT_HELLO || link->host >= 0 || !agent_hello_decode(message, &hello) ||
        message->number > HOST_SLOTS_MAX)
        return error_set(why, HVD_ERR_MISMATCH, "it sent a message of kind %u; does it run the same hvd?",
                         message->kind);
    if (strcmp(hello.version, PACKAGE_VERSION) != 0) {
        refuse_version(agents, link, &hello);
        return HVD_OK;
    }
    int host = message->number > 0
                   ? agent_hosts_admit_guest(&agents->hosts, hello.host, (int)message->number, &refusal)
                   : agent_hosts_admit(&agents->hosts, hello.host, &refusal);
    if (host >= 0)
        welcome(agents, link, host);
    else
        refuse(agents, link, refusal.text);
    return HVD_OK;
}

static int take_unfit(struct agents *agents, struct agent_link *link, const struct fence_message *message,
                      struct hvd_error *why)
{
    char name[HOST_NAME_BYTES];
    struct hvd_error refusal;
    if (link->host >= 0 || !agent_unfit_decode(message, name, &refusal) ||
        !agent_hosts_refuse(&agents->hosts, name, refusal.text))
        return error_set(why, HVD_ERR_MISMATCH,
                         "it says that a host is unfit from which no agent is expected");
    close_link(agents, link, refusal.text);
    return HVD_OK;
}

/* ---- Requests ------------------------------------------------------------------------------------- */

static int start(void *state, const struct starter_rank *rank, struct hvd_error *err)
{
    struct agents *agents = state;
    unsigned char bytes[AGENT_MESSAGE_BYTES];
    const struct seat *seat = &agents->hosts.seats.seats[rank->rank];
    struct starter_rank started = *rank;
    struct agent_link *link = link_of(agents, seat->host);
    agents->running[rank->rank] = link != NULL ? seat->host : LOST_HOST;
    int rc = output_expect(agents->plan.output, rank->rank, err);
    if (rc != HVD_OK || link == NULL)
        return rc;
    struct launch_place place;
    seats_place(&agents->hosts.seats, rank->rank, rank->size, &place);
    started.is_newcomer = true; /* it asks for its place in its first epoch too */
    struct fence_message message = {.kind = AGENT_START, .rank = (uint32_t)rank->rank, .bytes = bytes};
    message.length = agent_start_encode(&started, &place, bytes);
    send_to(agents, link, &message);
    return HVD_OK;
}

static void signal_all(void *state, int signal_number)
{
    send_to_all(state, &(struct fence_message){
                           .kind = AGENT_SIGNAL, .number = (uint32_t)signal_number, .rank = AGENT_ALL});
}

static void signal_rank(void *state, int rank, int signal_number)
{
    struct agents *agents = state;
    struct agent_link *link = link_of(agents, agents->running[rank]);
    if (link != NULL)
        send_to(agents, link,
                &(struct fence_message){
                    .kind = AGENT_SIGNAL, .number = (uint32_t)signal_number, .rank = (uint32_t)rank});
}

/* [us] from now on. */
static void set_timer(const struct agents *agents, int64_t us)
{
    const struct itimerspec times = {.it_value = clock_timespec(us)};
    timerfd_settime(agents->timer_fd, 0, &times, NULL);
}

static void end(void *state, int signal_number, int first)
{
    struct agents *agents = state;
    agents->hosts.ending = true;
    set_timer(agents, agents->plan.grace_us + SILENCE_US);
    send_to_all(agents, &(struct fence_message){.kind = AGENT_END,
                                                .number = (uint32_t)signal_number,
                                                .rank = first < 0 ? AGENT_ALL : (uint32_t)first});
}

static void kill_all(void *state)
{
    set_timer(state, SILENCE_US);
    send_to_all(state, &(struct fence_message){.kind = AGENT_KILL});
}

/* ---- Reports -------------------------------------------------------------------------------------- */

static void keep_traces(struct agents *agents, const struct agent_report *report)
{
    int rank = report->report.event.rank;
    if (agents->traces[rank] == NULL)
        agents->traces[rank] = malloc(sizeof(*agents->traces[rank]));
    if (agents->traces[rank] == NULL)
        return; /* the last line says less */
    agents->traces[rank]->facts = report->facts;
    memcpy(agents->traces[rank]->crash, report->crash, sizeof(report->crash));
}

/* The rank of a host that is left out may be started elsewhere at once, and there when the host returns: its
 * place is free then. */
static void note_failure(struct agents *agents, int host, const struct starter_report *report)
{
    int rank = report->event.rank;
    struct survivors *survivors = agents->plan.survivors;
    if (survivors_see_loss(survivors, rank, &report->end) && agent_hosts_fail(&agents->hosts, host, rank))
        survivors_lose_room(survivors, rank, seats_free(&agents->hosts.seats) + 1);
}

/* Clocks differ from host to host, and so do the numbers of sweeps. */
static int take_report(struct agents *agents, const struct agent_link *link,
                       const struct fence_message *message, struct starter_report *report,
                       struct hvd_error *why)
{
    struct agent_report read;
    if (!agent_report_decode(message, agents->plan.hosts.slots, &read) ||
        agents->running[read.report.event.rank] != link->host)
        return error_set(why, HVD_ERR_MISMATCH, "it sent a report that is wrong; does it run the same hvd?");
    *report = read.report;
    int rank = report->event.rank;
    report->event.at_us = report->end.at_us = clock_us();
    report->end.sweep += (uint64_t)link->host << 32;
    report->host = agent_hosts_name(&agents->hosts, link->host);
    if (report->event.kind != REAPER_STARTED)
        agents->running[rank] = NO_HOST;
    if (report->event.kind == REAPER_ENDED) {
        keep_traces(agents, &read);
        note_failure(agents, link->host, report);
    }
    return HVD_OK;
}

static int take_output(struct agents *agents, struct agent_link *link, const struct fence_message *message,
                       struct hvd_error *why)
{
    if (message->rank >= (uint32_t)agents->plan.hosts.slots || message->number > 1)
        return error_set(why, HVD_ERR_MISMATCH, "it sent output of no rank; does it run the same hvd?");
    output_feed(agents->plan.output, (int)message->rank, (int)message->number, (const char *)message->bytes,
                message->length);
    link->untaken += (uint32_t)message->length;
    return HVD_OK;
}

static int take_message(struct agents *agents, struct agent_link *link, const struct fence_message *message,
                        struct starter_report *report, struct hvd_error *why)
{
    if (message->kind == AGENT_UNFIT)
        return take_unfit(agents, link, message, why);
    if (link->host < 0 || message->kind == AGENT_HELLO)
        return take_hello(agents, link, message, why);
    if (message->kind == AGENT_OUTPUT)
        return take_output(agents, link, message, why);
    if (message->kind == AGENT_REPORT)
        return take_report(agents, link, message, report, why);
    link->empty = link->empty || message->kind == AGENT_EMPTY;
    return message->kind == AGENT_EMPTY || message->kind == AGENT_BEAT
               ? HVD_OK
               : error_set(why, HVD_ERR_MISMATCH, "it sent a message of kind %u; does it run the same hvd?",
                           message->kind);
}

/* Take what has come, up to a report. True with one. */
static bool serve(struct agents *agents, struct agent_link *link, struct starter_report *report)
{
    struct hvd_error why = {""};
    struct fence_message message = {.kind = 0};
    int rc = secure_channel_flush(&link->channel, &why);
    while (rc >= 0 && link->channel.fd >= 0) {
        rc = fence_message_receive(&link->channel, &message, &why);
        if (rc == HVD_OK)
            link->unanswered = 0;
        if (rc == HVD_OK)
            rc = take_message(agents, link, &message, report, &why);
        if (rc == HVD_IN_PROGRESS)
            return false;
        if (rc == HVD_OK && message.kind == AGENT_REPORT)
            return true;
    }
    if (rc < 0)
        close_link(agents, link, why.text);
    return false;
}

static void tell_what_is_taken(struct agents *agents, struct agent_link *link)
{
    if (link->untaken == 0 || !output_has_room(agents->plan.output))
        return;
    send_to(agents, link, &(struct fence_message){.kind = AGENT_TAKEN, .number = link->untaken});
    link->untaken = 0;
}

/* A rank whose host was lost has ended. */
static bool report_lost(struct agents *agents, struct starter_report *report)
{
    for (int rank = 0; rank < agents->plan.hosts.slots; rank++) {
        int host = agents->running[rank];
        if (host == NO_HOST || (host != LOST_HOST && agent_hosts_is_up(&agents->hosts, host)))
            continue;
        agents->running[rank] = NO_HOST;
        survivors_lose_room(agents->plan.survivors, rank, seats_free(&agents->hosts.seats));
        free(agents->traces[rank]);
        agents->traces[rank] = NULL;
        *report = (struct starter_report){
            .event = {.kind = REAPER_ENDED, .rank = rank, .at_us = clock_us()},
            .end = {.wait_status = SIGKILL,
                    .stage = agents->hosts.ending ? VERDICT_TERM_SENT : VERDICT_RUNNING,
                    .at_us = clock_us(),
                    .joined = epoch_server_is_member(agents->plan.survivors->server, rank),
                    .host_lost = true}};
        return true;
    }
    return false;
}

/* Has the job come to its end on all hosts? */
static bool report_empty(struct agents *agents, struct starter_report *report)
{
    if (!agents->hosts.ending || agents->said_empty)
        return false;
    for (int i = 0; i < agents->link_count; i++)
        if (agents->links[i].host >= 0 && !agents->links[i].empty)
            return false;
    agents->said_empty = true;
    *report = (struct starter_report){.event = {.kind = REAPER_EMPTY}};
    return true;
}

/* An agent that is stopped, or whose ranks cannot be ended, must not keep the job from its end. */
static void give_up_silent(struct agents *agents)
{
    uint64_t times = 0;
    if (read(agents->timer_fd, &times, sizeof(times)) < 0 || !agents->hosts.ending)
        return;
    for (int i = 0; i < agents->link_count; i++) {
        struct agent_link *link = &agents->links[i];
        if (link->host < 0 || link->empty)
            continue;
        fprintf(stderr,
                "hvdrun: the agent of %s does not say that its ranks have ended; some may be left there\n",
                agent_hosts_name(&agents->hosts, link->host));
        close_link(agents, link, "it is silent");
    }
}

/* A host that is stopped as a whole keeps its connection. The end of a job has a time of its own. */
static void beat(struct agents *agents)
{
    static const struct fence_message message = {.kind = AGENT_BEAT};
    uint64_t times = 0;
    if (read(agents->beat_fd, &times, sizeof(times)) < 0 || agents->hosts.ending)
        return;
    for (int i = 0; i < agents->link_count; i++) {
        struct agent_link *link = &agents->links[i];
        if (link->host < 0)
            continue;
        if (link->unanswered++ < BEATS_UNANSWERED_MAX)
            send_to(agents, link, &message);
        else
            close_link(agents, link, "it was silent for three times --hvd-lease");
    }
}

static int next(void *state, struct starter_report *report)
{
    struct agents *agents = state;
    for (; agents->turn < agents->link_count; agents->turn++) {
        struct agent_link *link = &agents->links[agents->turn];
        if (link->channel.fd >= 0 && serve(agents, link, report))
            return 1;
        tell_what_is_taken(agents, link);
        watch(agents, link);
    }
    agents->turn = 0;
    beat(agents);
    give_up_silent(agents);
    return report_lost(agents, report) || report_empty(agents, report);
}

static int clean(void *state)
{
    (void)state; /* it is never gone: next returns no -1 */
    return HVD_OK;
}

static void explain(void *state, int rank, int wait_status, struct verdict_facts *facts,
                    char crash[CRASH_TEXT_BYTES])
{
    struct agents *agents = state;
    const struct traces *traces = rank < 0 ? NULL : agents->traces[rank];
    (void)wait_status;
    if (traces == NULL)
        return;
    *facts = traces->facts;
    memcpy(crash, traces->crash, CRASH_TEXT_BYTES);
}

/* ---- Slots ---------------------------------------------------------------------------------------- */

static void look_at_hosts(struct agents *agents)
{
    agent_hosts_look(&agents->hosts, epoch_server_port(agents->plan.survivors->server));
    int64_t return_us = agent_hosts_return_us(&agents->hosts);
    if (return_us != agents->return_us && !agents->hosts.ending)
        set_timer(agents, return_us == CAPACITY_NEVER ? 0 : clock_ms_until(return_us) * INT64_C(1000) + 1000);
    agents->return_us = return_us;
    accept_agents(agents);
}

void agents_gather(struct agents *agents)
{
    struct starter_report none;
    look_at_hosts(agents);
    next(agents, &none); /* no rank has been started, so that none is reported */
}

/* Tell the job which of its slots have a place now. */
static int look(void *state)
{
    struct agents *agents = state;
    struct survivors *survivors = agents->plan.survivors;
    size_t bytes = (size_t)agents->plan.hosts.slots * sizeof(*agents->used);
    look_at_hosts(agents);
    for (int slot = 0; slot < agents->plan.hosts.slots; slot++)
        agents->used[slot] = survivors_use(survivors, slot) && agents->hosts.seats.seats[slot].host >= 0;
    if (agents->hosts.changed || memcmp(agents->used, agents->was_used, bytes) != 0) {
        seats_assign(&agents->hosts.seats, agents->used, agents->room);
        memcpy(agents->was_used, agents->used, bytes);
        agents->hosts.changed = false;
        survivors_fit(survivors, agents->room, agents_places(agents), seats_free(&agents->hosts.seats));
    }
    return agents_places(agents);
}

int agents_places(const struct agents *agents)
{
    return seats_places(&agents->hosts.seats);
}

bool agents_are_coming(const struct agents *agents)
{
    return agent_hosts_are_coming(&agents->hosts);
}

bool agents_will_start(const struct agents *agents)
{
    return agent_hosts_return_us(&agents->hosts) != CAPACITY_NEVER;
}

static int fd(const void *state)
{
    return agents_fd(state);
}

const struct starter_ops agents_ops = {.start = start,
                                       .signal = signal_all,
                                       .signal_rank = signal_rank,
                                       .end = end,
                                       .end_now = kill_all,
                                       .look = look,
                                       .fd = fd,
                                       .next = next,
                                       .clean = clean,
                                       .explain = explain};
