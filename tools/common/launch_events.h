/* launch_events.h: the events and metrics of a launch, as tables. What hvdrun --events and --metrics write,
 * the manual, --help and the tests are derived from them. */
#ifndef TOOLS_COMMON_LAUNCH_EVENTS_H
#define TOOLS_COMMON_LAUNCH_EVENTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/common/metrics.h"

enum launch_event {
    EVENT_JOB_STARTED,
    EVENT_RANK_STARTED,
    EVENT_EPOCH_FORMED,
    EVENT_RANK_EXITED,
    EVENT_RANK_LOST,
    EVENT_RANK_REPLACED,
    EVENT_RANK_JOINED,
    EVENT_SLOTS_CHANGED,
    EVENT_HOST_LEFT_OUT,
    EVENT_HOST_RETURNED,
    EVENT_JOB_FAILED,
    EVENT_JOB_ENDED,
    LAUNCH_EVENT_COUNT
};

/* The values of an event; its row says which of them count. Texts are borrowed. */
struct event_facts {
    const char *run_id, *node, *reason;
    int64_t time_us; /* since 1970 */
    int64_t epoch, restart, ranks, slots, rank, pid, status, dropped;
    int64_t lived_us, rendezvous_us, cooldown_us;
};

enum launch_field {
    FIELD_TIME,
    FIELD_RUN_ID,
    FIELD_EPOCH,
    FIELD_DROPPED,
    FIELD_RESTART,
    FIELD_RANKS,
    FIELD_SLOTS,
    FIELD_RANK,
    FIELD_NODE,
    FIELD_PID,
    FIELD_STATUS,
    FIELD_REASON,
    FIELD_LIVED,
    FIELD_RENDEZVOUS,
    FIELD_COOLDOWN,
    LAUNCH_FIELD_COUNT
};

/* A member of the lines. */
struct launch_field_row {
    const char *key, *help;
    enum { FIELD_IS_COUNT, FIELD_IS_TEXT, FIELD_IS_SECONDS } kind;
    size_t offset; /* in struct event_facts */
};

struct launch_event_row {
    const char *name, *help;
    unsigned fields; /* a bit for each; those of all lines are not among them */
};

/* The values of the metrics. */
struct launch_metrics {
    int64_t events[LAUNCH_EVENT_COUNT]; /* so far, of each kind */
    int64_t started_us;                 /* since 1970 */
    int64_t running;                    /* 1 while hvdrun runs the job */
    int64_t status;                     /* hvdrun's exit status; -1 while it runs */
    int64_t ranks, epoch, slots;        /* of the last epoch */
    int64_t rendezvous_us, rendezvous_all_us;
    int64_t dropped; /* lines of --events, so far */
};

struct launch_metric_row {
    const char *name, *help;
    enum metric_type type;
    enum { METRIC_IS_COUNT, METRIC_IS_SECONDS } unit;
    size_t offset; /* in struct launch_metrics, of an int64_t: a count, or microseconds */
};

#define LAUNCH_METRIC_COUNT 18

extern const struct launch_field_row launch_fields[LAUNCH_FIELD_COUNT];
extern const struct launch_event_row launch_events_table[LAUNCH_EVENT_COUNT];
extern const struct launch_metric_row launch_metrics_table[LAUNCH_METRIC_COUNT];

/* Write the line of an event. Pure. */
void launch_event_write(enum launch_event event, const struct event_facts *facts, FILE *to);

/* Write all metrics in the text format of Prometheus, labelled with the run. Pure. */
void launch_metrics_write(const struct launch_metrics *metrics, const char *run_id, FILE *to);

/* The tables as text for --help, and as mdoc for the manual. */
void launch_events_help(FILE *to);
void launch_events_man(FILE *to);

#endif
