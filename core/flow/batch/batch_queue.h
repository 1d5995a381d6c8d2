/* batch_queue.h: the batches of this rank in the order that all ranks agreed on, and how each of them ends.
 *
 * Owns the batches. The first one makes its steps (run.h); batches whose last step is in the GPU's queue have
 * left it and end in the order in which they came there. Calls finish for what is done, and trials. */
#ifndef FLOW_BATCH_BATCH_QUEUE_H
#define FLOW_BATCH_BATCH_QUEUE_H

#include "flow/batch/batch.h"
#include "flow/finish.h"
#include "flow/trials.h"

/* This folder alone knows the fields; others ask the questions below. */
struct batch_queue {
    struct trials *trials;
    struct finish *finish;
    bool armed;
    struct batch *first, **tail;             /* the first one runs */
    struct batch *launched, **launched_tail; /* their last step is in the GPU's queue, in this order */
    int count;                               /* of those from first on */
    uint64_t moves;                          /* steps that were made, of any batch */
    uint64_t ends;                           /* launched batches that the GPU has done */
};

/* The caller has set trials and finish, which are borrowed, and zeroed the other fields. */
void batch_queue_init(struct batch_queue *batch_queue);

/* From now on the driver may sleep after a round (true), or not. */
void batch_queue_arm(struct batch_queue *batch_queue, bool armed);

/* ---- Order ---- */

void batch_queue_append(struct batch_queue *batch_queue, struct batch *batch);

/* [rest] was cut off from [batch], and runs after it. */
void batch_queue_insert_behind(struct batch_queue *batch_queue, struct batch *batch, struct batch *rest);

/* Put the companions of [batch] behind it, as batches of their own. */
void batch_queue_part_companions(struct batch_queue *batch_queue, struct batch *batch);

/* The first one leaves the queue, and is the caller's. */
struct batch *batch_queue_remove_first(struct batch_queue *batch_queue);

/* All work of the first batch is in the GPU's queue, and its event is the last one there. Lets callers go on
 * that wait for no more. */
void batch_queue_launch_first(struct batch_queue *batch_queue);

/* The same for a batch that was not in the queue and has no tensors. */
void batch_queue_append_launched(struct batch_queue *batch_queue, struct batch *batch);

struct batch *batch_queue_remove_launched(struct batch_queue *batch_queue);

/* ---- Ends ---- */

/* [batch] has left the queue: its tensors end, then its request, and it is freed. */
void batch_queue_end(struct batch_queue *batch_queue, struct batch *batch, int status, const char *reason);

/* The first batch has done all it can do now: its tensors and those of its companions end. It leaves the
 * queue, and is the caller's. */
struct batch *batch_queue_keep_first(struct batch_queue *batch_queue);

/* Has the GPU reached the batch's event? HVD_IN_PROGRESS: it has not, and wakes a driver that sleeps. */
int batch_queue_test_event(const struct batch_queue *batch_queue, const struct batch *batch,
                           struct hvd_error *err);

/* The batch is at this step now, for the trace. */
void batch_queue_trace(struct batch_queue *batch_queue, const struct batch *batch, enum trace_step step);

/* ---- Questions ---- */

/* Is no batch left, not even at work on the GPU? */
bool batch_queue_is_empty(const struct batch_queue *batch_queue);

/* How many batches wait or run, without those that were launched. */
int batch_queue_count(const struct batch_queue *batch_queue);

/* Has the GPU all work of some batch, and has not done it? */
bool batch_queue_has_launched(const struct batch_queue *batch_queue);

/* Is NCCL still putting what it was given for a batch into the GPU's queue? */
bool batch_queue_is_in_nccl(const struct batch_queue *batch_queue);

/* The batch at the head of one of the two lists, and what grows when that moves. */
struct batch_head {
    const struct batch *batch; /* NULL: the list is empty */
    uint64_t moves;
};

struct batch_head batch_queue_first(const struct batch_queue *batch_queue);
struct batch_head batch_queue_first_launched(const struct batch_queue *batch_queue);

/* Is the batch of [set] with this number among the launched ones? */
bool batch_queue_is_launched(const struct batch_queue *batch_queue, hvd_set set, uint64_t number);

#endif
