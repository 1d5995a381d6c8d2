/* direct_steps.h: the steps of a batch that NCCL carries from GPU to GPU. It is packed, transferred and
 * unpacked in the GPU's queue, which the host fills without waiting for the GPU.
 *
 * Owns nothing. Calls communicator for what the members need first, and persistent, which keeps batches. */
#ifndef FLOW_BATCH_DIRECT_STEPS_H
#define FLOW_BATCH_DIRECT_STEPS_H

#include "flow/batch/batch_queue.h"
#include "flow/batch/persistent.h"

struct direct_steps {
    struct backends *backends;
    struct batch_queue *batch_queue;
    struct persistents *persistents;
};

/* The next step of [batch], which is at a stage that only batches of this kind have. [*movedp]: whether it
 * could be made. If NCCL cannot carry the batch, it goes through host memory from then on. */
int direct_step(struct direct_steps *direct, struct batch *batch, bool *movedp, struct hvd_error *err);

/* CONNECT, also ahead of the batch's turn. */
int direct_connect(struct direct_steps *direct, struct batch *batch, bool *movedp, struct hvd_error *err);

/* As batch_queue_test_event, for a batch that NCCL carries: an error also if NCCL has failed. */
int direct_test_event(const struct batch_queue *batch_queue, const struct batch *batch,
                      struct hvd_error *err);

#endif
