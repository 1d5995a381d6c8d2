/* finish.h: the last stage, the end of an operation: its status, its error sentence, its callback.
 *
 * Owns the flag that tells the loop to wake waiting callers, and the time that traced operations get. Borrows
 * the tensor queue, the trace, and control, which rings before a callback runs. Calls only these; every other
 * stage may call it. */
#ifndef FLOW_FINISH_H
#define FLOW_FINISH_H

#include "base/clock.h"
#include "control/control.h"
#include "flow/tensor_queue.h"
#include "negotiate/negotiate.h"
#include "net/peer_table.h"

struct finish {
    struct control *control;
    struct tensor_queue *queue;
    struct trace *trace;    /* NULL: nothing is traced */
    int64_t now_us;         /* clock_us at the last finish_read_clock; 0 without a trace */
    bool any_finished;      /* since the loop last woke waiting callers */
    _Atomic int unlaunched; /* what was submitted for NCCL, and is not launched or over */
    _Atomic int joins;      /* joins that were submitted, and are not over */
};

/* Count the request for one of these two, before it is submitted; or do so no more. Any thread. */
void finish_count(struct finish *finish, struct request *request);
void finish_uncount(struct finish *finish, struct request *request);

/* Read the clock once for all operations that a stage is about to work on. */
static inline void finish_read_clock(struct finish *finish)
{
    finish->now_us = finish->trace == NULL ? 0 : clock_us();
}

/* All that the request does is in the GPU's queue, and done when [end] comes: release its names, hand over
 * its results, and let those go on that wait for no more. It is over later. */
void finish_launch(struct finish *finish, struct request *request, struct gpu_event *end);

/* The request is over: release its names, hand over its results, run its callback, mark it as done.
 * [reason]: NULL for HVD_OK; otherwise the cause, and the sentence becomes `allreduce "w": reason`. */
void finish_request(struct finish *finish, struct request *request, int status, const char *reason);

/* One tensor of a request is over; the last one ends the request, with the first error among them. [reason]:
 * NULL for HVD_OK. */
void finish_tensor(struct finish *finish, struct request_tensor *tensor, int status, const char *reason);

/* The ranks disagree: `allreduce "w": rank 5 (n2) has float32[64,128], rank 0 (n1) has float32[64,64]`; or a
 * rank whose data is needed has joined. Does nothing on a rank that did not submit the operation. */
void finish_disagreement(struct finish *finish, const struct peer_table *peer_table,
                         const struct decision *decision);

/* End every request in flight in [set], or TENSOR_QUEUE_ALL_SETS, that is not decided yet. */
void finish_undecided(struct finish *finish, hvd_set set, int status, const char *reason);

#endif
