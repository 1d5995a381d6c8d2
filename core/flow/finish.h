/* finish.h: the end of an operation: its status, its sentence, its callback. */
#ifndef FLOW_FINISH_H
#define FLOW_FINISH_H

#include "net/peer_table.h"
#include "negotiate/negotiate.h"
#include "flow/tensor_queue.h"

/* Withdraw the request, hand over its results, run its callback, and say that it is done. [reason]: NULL for
 * HVD_OK; otherwise why, and the sentence becomes `allreduce "w": reason`. [now_us]: for the trace. */
void finish_request(struct tensor_queue *queue, struct trace *trace, struct request *request, int status,
                    const char *reason, int64_t now_us);

/* The ranks disagree: `allreduce "w": rank 5 (n2) has float32[64,128], rank 0 (n1) has float32[64,64]`; or
 * one has joined that is needed. A rank that did not submit has nothing to end. */
void finish_disagreement(struct tensor_queue *queue, struct trace *trace, const struct peer_table *peer_table,
                         const struct decision *decision);

/* Every request in flight in [set], or TENSOR_QUEUE_ALL_SETS, that was not decided ends with [status]. */
void finish_undecided(struct tensor_queue *queue, struct trace *trace, hvd_set set, int status,
                      const char *reason);

#endif
