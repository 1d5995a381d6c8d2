/* tensor_queue.h: user threads submit requests here and test them; the progress driver takes them. The only
 * part of flow that several threads touch: every call locks, unless it says otherwise. */
#ifndef FLOW_TENSOR_QUEUE_H
#define FLOW_TENSOR_QUEUE_H

#include "flow/request.h"

struct tensor_queue;

/* [idle_limit]: requests that are done are kept for reuse while they have at most that many tensors together;
 * the least recently used are freed first. 0: TENSOR_QUEUE_IDLE_LIMIT. */
#define TENSOR_QUEUE_IDLE_LIMIT 16384
int tensor_queue_create(struct tensor_queue **queuep, int64_t idle_limit, struct hvd_error *err);
void tensor_queue_destroy(struct tensor_queue *queue); /* NULL is fine; requests in it are freed */

/* Take the idle request whose first tensor has this name; the caller owns it then. NULL if there is none,
 * also if [name] is too long. */
struct request *tensor_queue_reuse(struct tensor_queue *queue, hvd_set set, const char *name);

/* Free a request that tensor_queue_reuse returned. */
void tensor_queue_discard(struct tensor_queue *queue, struct request *request);

/* Submit [request], new or reused; the queue owns it from then on. On failure the caller owns it, as a new
 * one. *firstp: the queue was empty before, so the driver must be woken. HVD_ERR_DUPLICATE if the name of one
 * of its tensors is in flight in its set, or stands in it twice; after tensor_queue_refuse the status given
 * there. */
int tensor_queue_submit(struct tensor_queue *queue, struct request *request, hvd_handle *handlep,
                        bool *firstp, struct hvd_error *err);

/* From now on submissions get [status] and [sentence]; the first refusal stays. */
void tensor_queue_refuse(struct tensor_queue *queue, int status, const char *sentence);

/* Take all that was submitted, in order. NULL if there is nothing, which does not take the lock. */
struct request *tensor_queue_take(struct tensor_queue *queue);

/* Was something submitted that was not taken? Does not lock. */
bool tensor_queue_has_submissions(const struct tensor_queue *queue);

/* The operation is over: its names may be used again, by its own callback too. Does not lock. */
void tensor_queue_withdraw(struct request *request);

/* Withdraw all that is in flight in [set] and not [decided], taken or not; returns them linked by next. */
#define TENSOR_QUEUE_ALL_SETS (-1)
struct request *tensor_queue_withdraw_undecided(struct tensor_queue *queue, hvd_set set);

/* A withdrawn request is done and its callback has run. The queue owns it then, and frees it or keeps it for
 * reuse. [sentence]: the error, or NULL. Locks only if the request has no handle. */
void tensor_queue_finish(struct tensor_queue *queue, struct request *request, int status,
                         const char *sentence);

/* How many operations were finished: until it changes, none is done that was not. Does not lock. */
uint64_t tensor_queue_finished_count(const struct tensor_queue *queue);

/* The status of the operation; HVD_ERR_INVALID if [handle] is not valid. [err]: the sentence of a final
 * error. */
int tensor_queue_test(struct tensor_queue *queue, hvd_handle handle, struct hvd_error *err);

/* The same; releases the handle if the operation is done. */
int tensor_queue_test_and_release(struct tensor_queue *queue, hvd_handle handle, struct hvd_error *err);

#endif
