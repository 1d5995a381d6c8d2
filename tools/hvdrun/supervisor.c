/* supervisor.c: hvdrun's main loop. It alone decides when the job ends. */
#include "tools/hvdrun/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "tools/hvdrun/job_signals.h"

#define NO_DEADLINE    INT64_MAX
#define LOST_GRACE_US  200000  /* time for the report of a rank that died and took the PMIx server with it */
#define ALIVE_LIMIT_US 1000000 /* for the PMIx server to say that it is alive */

enum {
    POLL_SIGNAL,
    POLL_STARTER,
    POLL_SERVER,
    POLL_EPOCHS,
    POLL_CAPACITY,
    POLL_EVENTS,
    POLL_INPUT,
    POLL_OUTPUT = POLL_INPUT + INPUT_POLLS,
    POLL_COUNT = POLL_OUTPUT + OUTPUT_POLLS
};

static int start_rank(struct supervisor *supervisor, int rank, struct hvd_error *err)
{
    const struct survivors *survivors = supervisor->survivors;
    const struct starter_rank start = {.rank = rank,
                                       .size = rank < supervisor->size ? supervisor->size : rank + 1,
                                       .restarts = survivors_restarts_of(survivors, rank),
                                       .is_newcomer = survivors_is_newcomer(survivors, rank)};
    return supervisor->starter.ops->start(supervisor->starter.state, &start, err);
}

static bool has_ranks_to_start(const struct supervisor *supervisor)
{
    return !supervisor->ending && supervisor->start_count < supervisor->plan->size;
}

static int next_in_order(struct supervisor *supervisor)
{
    int started = supervisor->start_count++;
    return supervisor->places != NULL ? rank_places_to_start(supervisor->places, started) : started;
}

/* One rank a round, so that a failure or an interrupt ends the start of many. */
static void start_next_rank(struct supervisor *supervisor)
{
    struct hvd_error err;
    int rank = supervisor->plan->size;
    while (rank >= supervisor->size && has_ranks_to_start(supervisor))
        rank = next_in_order(supervisor);
    if (rank >= supervisor->size)
        return;
    if (start_rank(supervisor, rank, &err) != HVD_OK)
        verdict_broken(supervisor->verdict, err.text);
}

/* Start a rank that has failed again, or one for which there is room now, if it is time to. */
static void start_newcomer(struct supervisor *supervisor)
{
    struct hvd_error err;
    bool ends = supervisor->ending || verdict_is_failure(supervisor->verdict);
    int rank = ends ? -1 : survivors_take_start(supervisor->survivors);
    if (rank < 0)
        return;
    supervisor->gone_count--;
    if (start_rank(supervisor, rank, &err) != HVD_OK)
        verdict_broken(supervisor->verdict, err.text);
}

/* There is no room for them any more. */
static void signal_leavers(struct supervisor *supervisor)
{
    int signal_number = 0;
    const struct starter *starter = &supervisor->starter;
    for (int rank = 0; !supervisor->ending && rank >= 0;) {
        rank = survivors_take_signal(supervisor->survivors, &signal_number);
        if (rank >= 0)
            starter->ops->signal_rank(starter->state, rank, signal_number);
    }
}

/* Handle the events of the PMIx server. What a rank did there was sent before the reaper's report of its end:
 * they are handled once more between reading that report and judging it. */
static void handle_server_events(struct supervisor *supervisor)
{
    struct server_event event;
    while (server_next(supervisor->server, &event)) {
        switch (event.kind) {
        case SERVER_CONNECTED:
            verdict_connected(supervisor->verdict, event.rank);
            launch_events_rank_connected(supervisor->events, event.rank);
            break;
        case SERVER_FINALIZED:
            verdict_finalized(supervisor->verdict, event.rank);
            break;
        case SERVER_ABORT:
            verdict_aborted(supervisor->verdict, event.rank, event.status, event.text);
            break;
        case SERVER_ALIVE:
            supervisor->server_answered = true;
            break;
        case SERVER_CRASHES: /* libpmix may do that when ranks die, so the rank that died first is the cause
                              */
            supervisor->server_excused = event.status > verdict_deserter_count(supervisor->verdict);
            break;
        case SERVER_LOST:
            snprintf(supervisor->server_lost, sizeof(supervisor->server_lost), "%s", event.text);
            supervisor->server_lost_us = clock_us();
            break;
        }
    }
}

/* A rank has failed: did the PMIx server die before it? A server that answers now did not, and what else it
 * sent, such as an abort, is known then. A rank that fails without the server is a consequence, unless the
 * server had lost a rank before it crashed. */
static void blame_server_first(struct supervisor *supervisor)
{
    int64_t deadline_us = clock_us() + ALIVE_LIMIT_US;
    supervisor->server_answered = false;
    server_ask_alive(supervisor->server);
    while (!supervisor->server_answered && server_fd(supervisor->server) >= 0 && clock_us() < deadline_us) {
        struct pollfd server = {.fd = server_fd(supervisor->server), .events = POLLIN};
        poll(&server, 1, clock_ms_until(deadline_us));
        handle_server_events(supervisor);
    }
    if (supervisor->server_lost[0] != 0 && !supervisor->server_excused)
        verdict_broken(supervisor->verdict, supervisor->server_lost);
}

/* The ranks have become hvdrun's children. Nobody else can end them now. */
static void end_orphans(struct supervisor *supervisor)
{
    const struct starter *starter = &supervisor->starter;
    verdict_broken(supervisor->verdict, "the reaper, which starts and ends the ranks, was killed");
    server_close(supervisor->server); /* it is a child, too, and has to end anyway */
    supervisor->server = NULL;
    if (starter->ops->clean(starter->state) == HVD_OK)
        verdict_rest_ended(supervisor->verdict);
    supervisor->empty = true;
}

/* The exception of a rank is of interest only to those who are told. */
static void tell_end(const struct supervisor *supervisor, int rank, const struct verdict_end *end)
{
    char crash[CRASH_TEXT_BYTES];
    struct verdict_facts facts = {.error = ""};
    const struct starter *starter = &supervisor->starter;
    if (supervisor->events == NULL)
        return;
    if (end->wait_status != 0)
        starter->ops->explain(starter->state, rank, end->wait_status, &facts, crash);
    launch_events_rank_ended(supervisor->events, rank, end,
                             survivors_see_loss(supervisor->survivors, rank, end), facts.error);
}

static void handle_end(struct supervisor *supervisor, const struct starter_report *report)
{
    handle_server_events(supervisor);
    if (report->end.wait_status != 0 && !verdict_is_failure(supervisor->verdict))
        blame_server_first(supervisor);
    tell_end(supervisor, report->event.rank, &report->end);
    survivors_enter(supervisor->survivors, report->event.rank, &report->end, supervisor->verdict);
    supervisor->gone_count++;
}

static void handle_started(struct supervisor *supervisor, const struct starter_report *report)
{
    const struct reaper_report *event = &report->event;
    const struct launch_process process = {.node = report->host,
                                           .pid = event->pid,
                                           .restart =
                                               survivors_restarts_of(supervisor->survivors, event->rank),
                                           .started_us = event->at_us};
    verdict_started(supervisor->verdict, event->rank, report->host, event->pid, event->at_us);
    launch_events_rank_started(supervisor->events, event->rank, &process);
}

/* One that was started before, and cannot be now, has failed like any other. */
static void handle_not_started(struct supervisor *supervisor, const struct reaper_report *report)
{
    const char *path = reaper_app_of(supervisor->plan, report->rank)->path;
    int exit_status = report->number == ENOENT ? 127 : 126; /* as shells say it */
    const struct verdict_end end = {.wait_status = exit_status << 8, .at_us = report->at_us};
    if (survivors_is_newcomer(supervisor->survivors, report->rank))
        survivors_enter(supervisor->survivors, report->rank, &end, supervisor->verdict);
    else
        verdict_not_started(supervisor->verdict, report->rank, path, report->number);
    supervisor->gone_count++;
}

static void handle_reports(struct supervisor *supervisor)
{
    struct verdict *verdict = supervisor->verdict;
    const struct starter *starter = &supervisor->starter;
    struct starter_report report = {.host = NULL};
    const struct reaper_report *event = &report.event;
    int rc = 0;
    for (rc = starter->ops->next(starter->state, &report); rc > 0;
         rc = starter->ops->next(starter->state, &report)) {
        switch (event->kind) {
        case REAPER_READY: /* reaper_fork has received it */
            break;
        case REAPER_STARTED:
            handle_started(supervisor, &report);
            break;
        case REAPER_NOT_STARTED:
            handle_not_started(supervisor, event);
            break;
        case REAPER_NOT_BOUND:
            verdict_broken(verdict, report.why.text);
            supervisor->gone_count++;
            break;
        case REAPER_ENDED:
            handle_end(supervisor, &report);
            break;
        case REAPER_EMPTY:
            supervisor->empty = true;
            break;
        }
    }
    if (rc < 0 && !supervisor->empty)
        end_orphans(supervisor);
}

/* Ctrl-Z stops the ranks too; they continue when hvdrun does. */
static void stop_with_ranks(struct supervisor *supervisor)
{
    const struct starter *starter = &supervisor->starter;
    starter->ops->signal(starter->state, SIGTSTP);
    job_signals_stop();
    starter->ops->signal(starter->state, SIGCONT);
}

/* Forward the signal to the ranks, so that they can save their state. */
static void handle_interrupt(struct supervisor *supervisor, int signal_number)
{
    const struct starter *starter = &supervisor->starter;
    verdict_interrupted(supervisor->verdict, signal_number);
    if (supervisor->ending)
        starter->ops->end_now(starter->state);
    else
        starter->ops->end(starter->state, signal_number, -1);
    supervisor->ending = true;
    supervisor->interrupt_count++;
}

static void handle_signals(struct supervisor *supervisor)
{
    struct signalfd_siginfo info;
    const struct starter *starter = &supervisor->starter;
    while (read(supervisor->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGTSTP:
            stop_with_ranks(supervisor);
            break;
        case SIGCONT: /* hvdrun may be in the foreground now and read from the terminal */
            break;
        case SIGUSR1:
        case SIGUSR2:
            starter->ops->signal(starter->state, (int)info.ssi_signo);
            break;
        default:
            handle_interrupt(supervisor, (int)info.ssi_signo);
            break;
        }
    }
}

/* The PMIx server died. If a rank failed at about the same time, blame the rank. */
static void check_server_lost(struct supervisor *supervisor)
{
    if (supervisor->server_lost[0] != 0 && clock_us() >= supervisor->server_lost_us + LOST_GRACE_US)
        verdict_broken(supervisor->verdict, supervisor->server_lost);
}

/* The time at which the job must be looked at again even if nothing happens. */
static int64_t next_look_us(const struct supervisor *supervisor)
{
    bool waiting = supervisor->server_lost[0] != 0 && !verdict_is_failure(supervisor->verdict);
    int64_t server_us = waiting ? supervisor->server_lost_us + LOST_GRACE_US : NO_DEADLINE;
    int64_t due_us = supervisor->ending ? NO_DEADLINE : survivors_due_us(supervisor->survivors);
    int64_t look_us = supervisor->ending ? NO_DEADLINE : capacity_look_us(supervisor->capacity);
    int64_t events_us = launch_events_due_us(supervisor->events);
    due_us = look_us < due_us ? look_us : due_us;
    due_us = events_us < due_us ? events_us : due_us;
    return due_us < server_us ? due_us : server_us;
}

/* Do ranks run that are needed, or will any? */
static bool goes_on(const struct supervisor *supervisor)
{
    return !survivors_are_done(supervisor->survivors) &&
           (supervisor->gone_count < supervisor->size || survivors_will_start(supervisor->survivors));
}

/* A failure ends all ranks. When all ranks have ended, the processes that they left are ended. */
static void end_if_needed(struct supervisor *supervisor)
{
    const struct starter *starter = &supervisor->starter;
    if (supervisor->ending)
        return;
    if (!verdict_is_failure(supervisor->verdict) && goes_on(supervisor))
        return;
    supervisor->ending = true;
    starter->ops->end(starter->state, SIGTERM, verdict_rank(supervisor->verdict));
}

static void report_output_errors(struct supervisor *supervisor)
{
    const struct starter *starter = &supervisor->starter;
    if (output_take_hang_up(supervisor->output))
        starter->ops->signal(starter->state, SIGPIPE);
    const char *complaint = output_complaint(supervisor->output);
    if (complaint != NULL)
        verdict_broken(supervisor->verdict, complaint);
}

static void look_at_capacity(struct supervisor *supervisor)
{
    const struct starter *starter = &supervisor->starter;
    if (supervisor->ending || verdict_is_failure(supervisor->verdict))
        return;
    capacity_work(supervisor->capacity);
    if (starter->ops->look == NULL && supervisor->capacity == NULL)
        return;
    int slots = starter->ops->look != NULL ? starter->ops->look(starter->state)
                                           : capacity_slots(supervisor->capacity);
    launch_events_slots(supervisor->events, slots);
    if (starter->ops->look == NULL)
        survivors_resize(supervisor->survivors, slots);
}

static void tell_cooldown(const struct supervisor *supervisor)
{
    const struct cooldown *cooldown = &supervisor->survivors->cooldown;
    launch_events_cooldown(supervisor->events, cooldown->until_us == 0 ? 0 : cooldown->time_us);
}

/* Tell of an epoch that has begun. */
static void tell_epoch(const struct supervisor *supervisor)
{
    const struct epoch_server *server = supervisor->survivors->server;
    if (server == NULL || epoch_server_epoch(server) == launch_events_last_epoch(supervisor->events))
        return;
    launch_events_epoch(supervisor->events, epoch_server_epoch(server), epoch_server_members(server),
                        epoch_server_rendezvous_us(server));
    for (int rank = 0; rank < supervisor->plan->size; rank++)
        if (epoch_server_is_member(server, rank))
            launch_events_member(supervisor->events, rank);
}

/* Sleep until an event or [deadline_us], and let each part handle its events. */
static void poll_once(struct supervisor *supervisor, int64_t deadline_us)
{
    int timeout_ms = -1;
    struct pollfd fds[POLL_COUNT] = {
        [POLL_SIGNAL] = {.fd = supervisor->signal_fd, .events = POLLIN},
        [POLL_STARTER] = {.fd = supervisor->starter.ops->fd(supervisor->starter.state), .events = POLLIN},
        [POLL_SERVER] = {.fd = server_fd(supervisor->server), .events = POLLIN},
        [POLL_EPOCHS] = {.fd = epoch_server_fd(supervisor->survivors->server), .events = POLLIN},
        [POLL_CAPACITY] = {.fd = supervisor->ending ? -1 : capacity_fd(supervisor->capacity),
                           .events = POLLIN},
        [POLL_EVENTS] = {.fd = launch_events_fd(supervisor->events), .events = POLLOUT},
    };
    input_poll(supervisor->input, &fds[POLL_INPUT]);
    output_poll(supervisor->output, &fds[POLL_OUTPUT], &timeout_ms);
    int deadline_ms = deadline_us == NO_DEADLINE ? -1 : clock_ms_until(deadline_us);
    if (timeout_ms < 0 || (deadline_ms >= 0 && deadline_ms < timeout_ms))
        timeout_ms = deadline_ms;
    if (poll(fds, POLL_COUNT, timeout_ms) < 0)
        return;
    handle_signals(supervisor);
    input_work(supervisor->input, &fds[POLL_INPUT]);
    output_work(supervisor->output);
    report_output_errors(supervisor); /* before the reports of ranks that ended because of it */
    handle_server_events(supervisor);
    handle_reports(supervisor);
    look_at_capacity(supervisor);
    survivors_work(supervisor->survivors, supervisor->verdict);
    tell_cooldown(supervisor);
    tell_epoch(supervisor);
    launch_events_work(supervisor->events);
}

/* Write the rest of the ranks' output. Wait for a reader that does not read; after an interrupt wait only for
 * the grace period, and until the next interrupt. */
static void finish_output(struct supervisor *supervisor)
{
    int interrupt_count = supervisor->interrupt_count;
    int64_t deadline_us = interrupt_count > 0 ? clock_us() + supervisor->plan->grace_us : NO_DEADLINE;
    input_close(supervisor->input);
    while (!output_finish(supervisor->output) && supervisor->interrupt_count == interrupt_count &&
           clock_us() < deadline_us)
        poll_once(supervisor, deadline_us);
    report_output_errors(supervisor);
}

void supervisor_run(struct supervisor *supervisor)
{
    while (!supervisor->empty) {
        start_next_rank(supervisor);
        start_newcomer(supervisor);
        signal_leavers(supervisor);
        check_server_lost(supervisor);
        end_if_needed(supervisor);
        poll_once(supervisor, has_ranks_to_start(supervisor) ? clock_us() : next_look_us(supervisor));
    }
    finish_output(supervisor);
}
