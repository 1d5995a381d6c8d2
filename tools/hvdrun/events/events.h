/* events.h: what hvdrun tells of a job while it runs: the events of --events, and the metrics of --metrics.
 *
 * The folder promises hvdrun that telling never waits for a reader, and that nothing is lost in silence. Its
 * stages: events.c knows what happened before and makes an event of each happening, by the tables of
 * tools/common/launch_events.h; line_sink.c and metrics_file.c write. One thread. */
#ifndef TOOLS_HVDRUN_EVENTS_EVENTS_H
#define TOOLS_HVDRUN_EVENTS_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "verdict/verdict.h"

#define LAUNCH_EVENTS_NEVER INT64_MAX

struct launch_events;

/* What the user wants; texts are borrowed. */
struct launch_events_wish {
    const char *events, *metrics; /* where to; NULL: nowhere */
    const char *run_id;
    const char *node; /* the name of this machine */
};

/* *eventsp stays NULL if nothing is wanted, with which all functions below do nothing. HVD_ERR_INVALID or
 * HVD_ERR_NO_MEMORY with a sentence. */
int launch_events_open(struct launch_events **eventsp, const struct launch_events_wish *wish,
                       struct hvd_error *err);

/* hvdrun ends with [status]. If lines were dropped, a warning says how many. */
void launch_events_close(struct launch_events *events, int status);

/* A job. */
struct launch_events_job {
    int restart; /* how often it was started before */
    int ranks;   /* at its start */
    int slots;   /* ranks that it may grow to */
    int room;    /* slots that the hosts have now */
};

/* It is about to start. */
int launch_events_job_started(struct launch_events *events, const struct launch_events_job *job,
                              struct hvd_error *err);

/* The process of a rank. */
struct launch_process {
    const char *node; /* the name of its machine; borrowed for as long as the job */
    pid_t pid;
    int restart; /* the how manieth of this job after the first */
    int64_t started_us;
};

/* It runs. */
void launch_events_rank_started(struct launch_events *events, int rank, const struct launch_process *process);

/* [rank] has joined the job of the PMIx server. When all have, epoch 0 is formed. */
void launch_events_rank_connected(struct launch_events *events, int rank);

/* [rank] has ended; and has it failed? [error]: the exception that ended its program; "": none is known. */
void launch_events_rank_ended(struct launch_events *events, int rank, const struct verdict_end *end,
                              bool failed, const char *error);

/* Another epoch has begun; then each of its [ranks] is named. */
void launch_events_epoch(struct launch_events *events, uint32_t epoch, int ranks, int64_t rendezvous_us);
void launch_events_member(struct launch_events *events, int rank);

/* The epoch that was told last. */
uint32_t launch_events_last_epoch(const struct launch_events *events);

/* The hosts have so many slots; told if it is news. */
void launch_events_slots(struct launch_events *events, int slots);

/* This host is left out for so long; 0: it is not. Told if it is news. */
void launch_events_cooldown(struct launch_events *events, int64_t time_us);

/* [node], NULL: this machine, is left out for so long, 0: without a limit; and it returns. */
void launch_events_host_left_out(struct launch_events *events, const char *node, int64_t time_us,
                                 const char *reason);
void launch_events_host_returned(struct launch_events *events, const char *node);

/* The job has failed, and no process of it is left. [rank]: which failed first; -1: none did. */
void launch_events_job_failed(struct launch_events *events, int rank, int status, const char *reason);

/* Write what has waited. It is worth trying when this descriptor is writable (-1: never), and at this time.
 */
void launch_events_work(struct launch_events *events);
int launch_events_fd(const struct launch_events *events);
int64_t launch_events_due_us(const struct launch_events *events);

#endif
