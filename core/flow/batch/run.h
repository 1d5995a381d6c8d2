/* run.h: the third stage. Batches run one after another, in the order that all ranks agreed on, each one step
 * at a time. This file alone knows all kinds of batches: those that go through host memory (host_steps),
 * those that NCCL carries (direct_steps), starts of persistent operations (persistent), and changes of the
 * process sets (set_change).
 *
 * Owns nothing but what the steps need; the batches are the batch queue's. */
#ifndef FLOW_BATCH_RUN_H
#define FLOW_BATCH_RUN_H

#include "flow/batch/batch_queue.h"
#include "flow/batch/direct_steps.h"
#include "flow/batch/host_steps.h"
#include "flow/batch/persistent.h"
#include "flow/failure.h"
#include "flow/set_registry.h"

struct run {
    struct control *control;
    struct backends *backends;
    struct set_registry *set_registry;
    struct failure *failure;
    struct gpu *gpu;
    struct batch_queue *batch_queue;
    struct persistents *persistents;
    struct host_steps host;
    struct direct_steps direct;
};

/* The caller has set the fields from control to persistents, which are borrowed, and zeroed the others. */
void run_init(struct run *run);

/* Every batch has ended, by itself or by run_abandon. A zeroed run is fine. */
void run_fini(struct run *run);

/* Take the first batch further: by one step, or by several if they are quick. [*movedp] becomes true if
 * anything was done. */
int run_advance(struct run *run, bool *movedp, struct hvd_error *err);

/* Stop the running batch, whose memory the backend does not touch from here on, and end all with [status]. */
void run_abandon(struct run *run, int status, const char *reason);

/* The rank that a batch of the queue waits for, as far as this rank can tell, or -1. */
int run_waits_for(const struct run *run, const struct batch *batch);

/* Is a backend at work on the first batch, so that news will come soon? */
bool run_is_busy(const struct run *run);

/* When a backend or NCCL has something to do though no descriptor says so: clock_us time, or INT64_MAX. */
int64_t run_deadline(const struct run *run);

/* Is a backend at work whose progress only polling shows, because no descriptor becomes readable? */
bool run_must_poll(const struct run *run);

#endif
