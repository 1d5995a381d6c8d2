/* stall_watch.h: times the batches at work on this rank by their progress, and says how the rank stands with
 * a batch that others wait in. Two are timed: the first one, and the first of those in the GPU's queue.
 *
 * Borrows the batch queue, the stage that runs it, the set registry and the negotiation, which asks the other
 * ranks and answers them. Calls failure where nobody can be asked. */
#ifndef FLOW_STALL_WATCH_H
#define FLOW_STALL_WATCH_H

#include "flow/batch/run.h"
#include "base/clock.h"
#include "negotiate/negotiate.h"

struct stall_timer {
    bool runs;            /* there was a batch at the last look */
    uint64_t moves;       /* what is counted of it, at the last look */
    int64_t since_us;     /* when the batch was first seen not to have moved since */
    int64_t due_us;       /* while it runs: when that is to be reported */
    struct repeat repeat; /* where this rank alone reports it */
};

struct stall_watch {
    const struct run *run;
    const struct batch_queue *batch_queue;
    struct set_registry *set_registry;
    struct failure *failure;
    int64_t warn_us, abort_us;          /* 0: never */
    struct stall_timer first, launched; /* of batch_queue_first and batch_queue_first_launched */
};

/* When stall_watch_check has something to do: clock_us time, or INT64_MAX. Call it before each sleep, and now
 * and then where the loop never sleeps. */
int64_t stall_watch_deadline(struct stall_watch *stall_watch, int64_t now_us);

/* This process did nothing for a while, as it was stopped: the batches are timed anew. */
void stall_watch_restart(struct stall_watch *stall_watch);

/* Report a batch that has not moved for too long. */
int stall_watch_check(struct stall_watch *stall_watch, struct negotiate *negotiate, int64_t now_us,
                      struct hvd_error *err);

/* As negotiate_params.standing; [arg] is the stall_watch. */
enum stall_standing stall_watch_standing(void *arg, hvd_set set, uint64_t batch, struct stall_rank *self);

#endif
