/* stall_watch.h: times the batch that runs on this rank by its progress, and says how the rank stands with a
 * batch that others wait in.
 *
 * Borrows the batch queue, the set registry and the negotiation, which asks the other ranks and answers them.
 * Calls failure where nobody can be asked. */
#ifndef FLOW_STALL_WATCH_H
#define FLOW_STALL_WATCH_H

#include "flow/batch/batch_queue.h"
#include "negotiate/negotiate.h"

struct stall_watch {
    const struct batch_queue *batch_queue;
    struct set_registry *set_registry;
    struct failure *failure;
    int64_t warn_us, abort_us; /* 0: never */
    bool runs;                 /* there was a batch at the last look */
    uint64_t moves;            /* as in batch_queue, at the last look */
    int64_t since_us;          /* when the first batch was first seen not to have moved since */
    int64_t due_us;            /* when that is to be reported; INT64_MAX: never */
};

/* When stall_watch_check has something to do: clock_us time, or INT64_MAX. Call it before each sleep, and now
 * and then where the loop never sleeps. */
int64_t stall_watch_deadline(struct stall_watch *stall_watch, int64_t now_us);

/* This process did nothing for a while, as it was stopped: the batch is timed anew. */
void stall_watch_restart(struct stall_watch *stall_watch);

/* Report a batch that has not moved for too long. */
int stall_watch_check(struct stall_watch *stall_watch, struct negotiate *negotiate, int64_t now_us,
                      struct hvd_error *err);

/* As negotiate_params.standing; [arg] is the stall_watch. */
enum stall_standing stall_watch_standing(void *arg, hvd_set set, uint64_t batch, struct stall_rank *self);

#endif
