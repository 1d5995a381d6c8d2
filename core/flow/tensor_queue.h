/* tensor_queue.h: where user threads hand in requests, and where they ask for them again. The only part of
 * flow that several threads touch: every call locks, unless it says otherwise. */
#ifndef FLOW_TENSOR_QUEUE_H
#define FLOW_TENSOR_QUEUE_H

#include "flow/request.h"

struct tensor_queue;

/* [idle_limit]: requests that return are kept for that, those of so many tensors together, the least recently
 * used going first; 0: TENSOR_QUEUE_IDLE_LIMIT. */
#define TENSOR_QUEUE_IDLE_LIMIT 16384
int tensor_queue_create(struct tensor_queue **queuep, int64_t idle_limit, struct hvd_error *err);
void tensor_queue_destroy(struct tensor_queue *queue); /* NULL is fine; requests in it are freed */

/* The request that was handed in last under this name, as its first tensor's, if it is over, is kept and
 * nobody has it: from then on it is the caller's. Otherwise NULL, as where [name] is too long for one. */
struct request *tensor_queue_reuse(struct tensor_queue *queue, hvd_set set, const char *name);

/* Forget a request that was recalled. */
void tensor_queue_discard(struct tensor_queue *queue, struct request *request);

/* Hand in [request], made or recalled, which is the queue's from then on; on failure it stays the caller's as
 * one that was made. *firstp: the queue was empty before, so whoever drives must be told. HVD_ERR_DUPLICATE
 * where one of its tensors' names is in flight in its set, or stands in it twice: then none of them is handed
 * in; the status of tensor_queue_refuse after that. */
int tensor_queue_submit(struct tensor_queue *queue, struct request *request, hvd_handle *handlep,
                        bool *firstp, struct hvd_error *err);

/* From now on submissions get [status] and [sentence]; the first refusal stays. */
void tensor_queue_refuse(struct tensor_queue *queue, int status, const char *sentence);

/* Take all that was handed in, in order; NULL where there is nothing (found out without locking). */
struct request *tensor_queue_take(struct tensor_queue *queue);

/* Is something handed in that was not taken? Does not lock. */
bool tensor_queue_has_submissions(const struct tensor_queue *queue);

/* The operation is over: its names may be used again, by its own callback too. Does not lock. */
void tensor_queue_withdraw(struct request *request);

/* Withdraw all that is in flight in [set] and not [decided], handed in or taken; linked by next. */
#define TENSOR_QUEUE_ALL_SETS (-1)
struct request *tensor_queue_withdraw_undecided(struct tensor_queue *queue, hvd_set set);

/* Say that a withdrawn request is done: its callback has run. The queue has it then, and frees it in time.
 * [sentence]: NULL, or why. Locks only where nobody holds a handle. */
void tensor_queue_finish(struct tensor_queue *queue, struct request *request, int status,
                         const char *sentence);

/* How many operations were finished: until it changes, none is done that was not. Does not lock. */
uint64_t tensor_queue_finished_count(const struct tensor_queue *queue);

/* How far the operation is; HVD_ERR_INVALID for a handle that is none. [err]: the sentence of a final error.
 */
int tensor_queue_test(struct tensor_queue *queue, hvd_handle handle, struct hvd_error *err);

/* The same, and the handle of an operation that is done is given back. */
int tensor_queue_test_and_release(struct tensor_queue *queue, hvd_handle handle, struct hvd_error *err);

#endif
