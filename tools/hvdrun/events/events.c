/* events.c: makes an event of each happening of a job, and keeps its metrics. */
#include "config.h"

#include "tools/hvdrun/events/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "tools/common/launch_events.h"
#include "tools/common/metrics_file.h"
#include "tools/hvdrun/events/line_sink.h"

#define METRICS_EVERY_US INT64_C(1000000) /* between two writes of the file, however much happens */

/* The process of a rank that was started last. */
struct told_rank {
    struct launch_process process;
    bool connected, member;
};

struct launch_events {
    struct launch_events_wish wish;
    struct line_sink sink;
    struct launch_metrics metrics;
    int64_t metrics_due_us; /* LAUNCH_EVENTS_NEVER: the file has all of them */
    int64_t metrics_written_us;
    bool complained;
    int64_t opened_us;
    struct told_rank *ranks; /* [slots] */
    struct launch_events_job job;
    bool left_out;          /* this host is */
    int connected;          /* of its ranks */
    int formed;             /* epochs so far */
    int64_t first_start_us; /* of one of them; 0: none yet */
};

/* ---- Begin and end ------------------------------------------------------------------------------ */

static int64_t time_us(void)
{
    return clock_read_us(CLOCK_REALTIME);
}

static void write_text(FILE *to, const void *arg)
{
    const struct launch_events *events = arg;
    launch_metrics_write(&events->metrics, events->wish.run_id, to);
}

static int write_metrics(struct launch_events *events, struct hvd_error *err)
{
    events->metrics_due_us = LAUNCH_EVENTS_NEVER;
    events->metrics_written_us = clock_us();
    events->metrics.dropped = events->sink.dropped_all;
    return events->wish.metrics == NULL
               ? HVD_OK
               : metrics_file_write("--metrics", events->wish.metrics, write_text, events, err);
}

int launch_events_open(struct launch_events **eventsp, const struct launch_events_wish *wish,
                       struct hvd_error *err)
{
    if (wish->events == NULL && wish->metrics == NULL)
        return HVD_OK;
    struct launch_events *events = calloc(1, sizeof(*events));
    if (events == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for --events and --metrics");
    events->wish = *wish;
    events->sink.fd = -1;
    events->opened_us = clock_us();
    events->metrics = (struct launch_metrics){.started_us = time_us(), .running = 1, .status = -1};
    int rc = wish->events == NULL ? HVD_OK : line_sink_open(&events->sink, wish->events, err);
    if (rc == HVD_OK)
        rc = write_metrics(events, err);
    if (rc == HVD_OK) {
        *eventsp = events;
        return HVD_OK;
    }
    line_sink_close(&events->sink);
    free(events);
    return rc;
}

/* ---- Telling ------------------------------------------------------------------------------------ */

static void put_line(struct launch_events *events, enum launch_event event, const struct event_facts *facts)
{
    char *line = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&line, &length);
    if (to == NULL)
        return;
    launch_event_write(event, facts, to);
    if (fclose(to) == 0)
        line_sink_put(&events->sink, line, length);
    free(line);
}

/* Tell an event with the [facts] of it, and those of all lines. */
static void tell(struct launch_events *events, enum launch_event event, struct event_facts facts)
{
    facts.time_us = time_us();
    facts.run_id = events->wish.run_id;
    facts.node = facts.node == NULL ? events->wish.node : facts.node;
    facts.epoch = events->metrics.epoch;
    facts.dropped = events->sink.dropped;
    events->metrics.events[event]++;
    if (events->sink.where != NULL)
        put_line(events, event, &facts);
    if (events->metrics_due_us == LAUNCH_EVENTS_NEVER)
        events->metrics_due_us = events->metrics_written_us + METRICS_EVERY_US;
}

/* A file that cannot be written any more is complained of once. */
static void refresh_metrics(struct launch_events *events)
{
    struct hvd_error why;
    if (write_metrics(events, &why) == HVD_OK || events->complained)
        return;
    events->complained = true;
    fprintf(stderr, "hvdrun: warning: %s; the job goes on\n", why.text);
}

static void warn_of_dropped_lines(const struct line_sink *sink)
{
    if (sink->dropped_all > 0)
        fprintf(stderr, "hvdrun: warning: --events=%s: %lld line%s could not be written, and %s dropped\n",
                sink->where, (long long)sink->dropped_all, sink->dropped_all == 1 ? "" : "s",
                sink->dropped_all == 1 ? "was" : "were");
}

void launch_events_close(struct launch_events *events, int status)
{
    if (events == NULL)
        return;
    events->metrics.running = 0;
    events->metrics.status = status;
    tell(events, EVENT_JOB_ENDED,
         (struct event_facts){
             .restart = events->job.restart, .status = status, .lived_us = clock_us() - events->opened_us});
    line_sink_close(&events->sink);
    warn_of_dropped_lines(&events->sink);
    refresh_metrics(events);
    free(events->ranks);
    free(events);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int launch_events_job_started(struct launch_events *events, const struct launch_events_job *job,
                              struct hvd_error *err)
{
    if (events == NULL)
        return HVD_OK;
    free(events->ranks);
    events->ranks = calloc((size_t)job->slots, sizeof(*events->ranks));
    if (events->ranks == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the events of %d ranks", job->slots);
    events->job = *job;
    events->connected = events->formed = 0;
    events->first_start_us = 0;
    events->left_out = false;
    events->metrics.epoch = 0;
    events->metrics.ranks = job->ranks;
    events->metrics.slots = least(job->room, job->slots);
    tell(events, EVENT_JOB_STARTED,
         (struct event_facts){.restart = job->restart, .ranks = job->ranks, .slots = events->metrics.slots});
    return HVD_OK;
}

/* ---- Ranks -------------------------------------------------------------------------------------- */

static struct event_facts facts_of(const struct launch_events *events, int rank, int64_t at_us)
{
    const struct launch_process *process = &events->ranks[rank].process;
    return (struct event_facts){.rank = rank,
                                .node = process->node,
                                .pid = process->pid,
                                .restart = events->job.restart + process->restart,
                                .lived_us = at_us - process->started_us};
}

void launch_events_rank_started(struct launch_events *events, int rank, const struct launch_process *process)
{
    if (events == NULL)
        return;
    events->ranks[rank] = (struct told_rank){*process, false, false};
    if (events->first_start_us == 0)
        events->first_start_us = process->started_us;
    tell(events, EVENT_RANK_STARTED, facts_of(events, rank, process->started_us));
}

static void tell_epoch(struct launch_events *events, uint32_t epoch, int ranks, int64_t rendezvous_us)
{
    events->formed++;
    events->metrics.epoch = epoch;
    events->metrics.ranks = ranks;
    events->metrics.rendezvous_us = rendezvous_us;
    events->metrics.rendezvous_all_us += rendezvous_us;
    tell(events, EVENT_EPOCH_FORMED, (struct event_facts){.ranks = ranks, .rendezvous_us = rendezvous_us});
}

void launch_events_rank_connected(struct launch_events *events, int rank)
{
    if (events == NULL || events->ranks[rank].connected)
        return;
    events->ranks[rank].connected = events->ranks[rank].member = true;
    events->connected++;
    if (events->connected == events->job.ranks)
        tell_epoch(events, 0, events->job.ranks, clock_us() - events->first_start_us);
}

void launch_events_rank_ended(struct launch_events *events, int rank, const struct verdict_end *end,
                              bool failed, const char *error)
{
    char how[300] = "exited with status 0", reason[700];
    if (events == NULL)
        return;
    struct event_facts facts = facts_of(events, rank, end->at_us);
    if (failed || end->wait_status != 0)
        verdict_describe_end(end, how, sizeof(how));
    snprintf(reason, sizeof(reason), "%s%s%s", how, error[0] == 0 ? "" : ": ", error);
    facts.reason = reason;
    facts.status =
        WIFSIGNALED(end->wait_status) ? 128 + WTERMSIG(end->wait_status) : WEXITSTATUS(end->wait_status);
    events->ranks[rank].member = false;
    tell(events, failed ? EVENT_RANK_LOST : EVENT_RANK_EXITED, facts);
}

/* ---- The job ------------------------------------------------------------------------------------ */

void launch_events_epoch(struct launch_events *events, uint32_t epoch, int ranks, int64_t rendezvous_us)
{
    if (events != NULL)
        tell_epoch(events, epoch, ranks, rendezvous_us);
}

void launch_events_member(struct launch_events *events, int rank)
{
    if (events == NULL || events->ranks[rank].member)
        return;
    events->ranks[rank].member = true;
    struct event_facts facts = facts_of(events, rank, clock_us());
    if (facts.restart > 0)
        tell(events, EVENT_RANK_REPLACED, facts);
    else if (events->formed > 1)
        tell(events, EVENT_RANK_JOINED, facts);
}

uint32_t launch_events_last_epoch(const struct launch_events *events)
{
    return events == NULL ? 0 : (uint32_t)events->metrics.epoch;
}

void launch_events_slots(struct launch_events *events, int slots)
{
    if (events == NULL || least(slots, events->job.slots) == events->metrics.slots)
        return;
    events->metrics.slots = least(slots, events->job.slots);
    tell(events, EVENT_SLOTS_CHANGED, (struct event_facts){.slots = events->metrics.slots});
}

void launch_events_cooldown(struct launch_events *events, int64_t time_us)
{
    if (events == NULL || (time_us != 0) == events->left_out)
        return;
    events->left_out = time_us != 0;
    if (events->left_out)
        launch_events_host_left_out(events, NULL, time_us, "a rank on it has failed");
    else
        launch_events_host_returned(events, NULL);
}

void launch_events_host_left_out(struct launch_events *events, const char *node, int64_t time_us,
                                 const char *reason)
{
    if (events != NULL)
        tell(events, EVENT_HOST_LEFT_OUT,
             (struct event_facts){.node = node, .cooldown_us = time_us, .reason = reason});
}

void launch_events_host_returned(struct launch_events *events, const char *node)
{
    if (events != NULL)
        tell(events, EVENT_HOST_RETURNED, (struct event_facts){.node = node});
}

void launch_events_job_failed(struct launch_events *events, int rank, int status, const char *reason)
{
    if (events == NULL)
        return;
    events->metrics.ranks = 0;
    tell(events, EVENT_JOB_FAILED,
         (struct event_facts){
             .restart = events->job.restart, .rank = rank, .status = status, .reason = reason});
}

/* ---- Waiting ------------------------------------------------------------------------------------ */

void launch_events_work(struct launch_events *events)
{
    if (events == NULL)
        return;
    line_sink_flush(&events->sink);
    if (clock_us() >= events->metrics_due_us)
        refresh_metrics(events);
}

int launch_events_fd(const struct launch_events *events)
{
    return events == NULL ? -1 : line_sink_fd(&events->sink);
}

int64_t launch_events_due_us(const struct launch_events *events)
{
    return events == NULL ? LAUNCH_EVENTS_NEVER : events->metrics_due_us;
}
