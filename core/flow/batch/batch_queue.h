/* batch_queue.h: the third stage. Batches run one after another, in the order that all ranks agreed on, each
 * one step at a time: lay out, pack, transfer by a backend, unpack.
 *
 * Owns the batches and the fusion buffer. Calls the backends, set_change for the batches that add or remove a
 * process set, failure for a lost rank, trials for what was transferred, and finish for what is done. */
#ifndef FLOW_BATCH_BATCH_QUEUE_H
#define FLOW_BATCH_BATCH_QUEUE_H

#include "flow/batch/batch.h"
#include "flow/batch/persistent.h"
#include "flow/failure.h"
#include "flow/finish.h"
#include "flow/set_registry.h"
#include "flow/trials.h"

struct batch_queue {
    struct control *control;
    struct backends *backends;
    struct set_registry *set_registry;
    struct failure *failure;
    struct trials *trials;
    struct finish *finish;
    struct gpu *gpu;
    struct persistents persistents;
    bool armed;                              /* as backend_ops.arm: the driver may sleep after this round */
    struct batch *first, **tail;             /* the first one runs */
    struct batch *launched, **launched_tail; /* their last step is in the GPU's queue, in this order */
    int count;                               /* of those from first on */
    int side;                                /* of the batch that was fetched last */
    uint64_t moves;                          /* steps that were made, of any batch */
    uint64_t ends;                           /* launched batches that the GPU has done */
    void *buffer; /* the fusion buffer, which grows to the size of the largest batch */
    int64_t buffer_bytes;
};

/* The caller has set the fields from control to gpu, which are borrowed, and zeroed the others. */
void batch_queue_init(struct batch_queue *batch_queue);

/* Free the buffer. No batch is left: each has ended, or batch_queue_abandon has ended it. */
void batch_queue_fini(struct batch_queue *batch_queue);

void batch_queue_append(struct batch_queue *batch_queue, struct batch *batch);

/* All work of [batch] is in the GPU's queue, and its event is the last one there. */
void batch_queue_append_launched(struct batch_queue *batch_queue, struct batch *batch);

/* Is NCCL still putting what it was given for a batch into the GPU's queue? */
bool batch_queue_is_in_nccl(const struct batch_queue *batch_queue);

/* Does NCCL take tensors of one of [batches], linked by next, where they are in [memory]? */
bool batches_use(const struct batch *batches, const struct gpu_memory *memory);

/* Take the first batch further: by one step, or several where they are quick. [*movedp] becomes true where
 * anything was done. */
int batch_queue_run(struct batch_queue *batch_queue, bool *movedp, struct hvd_error *err);

/* Stop the running batch, whose memory the backend does not touch from here on, and end all with [status]. */
void batch_queue_abandon(struct batch_queue *batch_queue, int status, const char *reason);

/* Is no batch left, not even at work on the GPU? */
bool batch_queue_is_empty(const struct batch_queue *batch_queue);

/* The rank that a batch of the queue waits for, as far as this rank can tell, or -1. */
int batch_queue_waits_for(const struct batch_queue *batch_queue, const struct batch *batch);

/* Is a backend at work on the first batch, so that news will come soon? */
bool batch_queue_is_busy(const struct batch_queue *batch_queue);

/* When its backend has something to do though no descriptor says so: clock_us time, or INT64_MAX. */
int64_t batch_queue_deadline(const struct batch_queue *batch_queue);

/* Is it busy, and does only polling tell what becomes of it, because no descriptor becomes readable? */
bool batch_queue_must_poll(const struct batch_queue *batch_queue);

#endif
