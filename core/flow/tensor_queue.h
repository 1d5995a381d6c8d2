/* tensor_queue.h: user threads submit requests here and test them; the progress driver takes them. Only this
 * part of flow is used by several threads at once: every call locks, unless its comment says otherwise. */
#ifndef FLOW_TENSOR_QUEUE_H
#define FLOW_TENSOR_QUEUE_H

#include "flow/request.h"

struct tensor_queue;

/* The queue keeps requests that are done for reuse, as long as these have at most [idle_limit] tensors
 * together, and frees the least recently used first. 0 means TENSOR_QUEUE_IDLE_LIMIT. */
#define TENSOR_QUEUE_IDLE_LIMIT 16384
int tensor_queue_create(struct tensor_queue **queuep, int64_t idle_limit, struct hvd_error *err);
void tensor_queue_destroy(struct tensor_queue *queue); /* NULL is fine; requests in it are freed */

/* Take the idle request whose first tensor has this name. The caller owns it from then on. NULL if there is
 * none, or if [name] is too long. */
struct request *tensor_queue_reuse(struct tensor_queue *queue, hvd_set set, const char *name);

/* Free a request that is not submitted: a new one, one that tensor_queue_reuse returned, or one that
 * tensor_queue_submit refused. */
void tensor_queue_discard(struct tensor_queue *queue, struct request *request);

/* Submit [request], new or reused. The queue owns it from then on; on failure the caller owns it, and may
 * treat it as a new one. *firstp: the queue was empty before, so the caller must wake the driver.
 * HVD_ERR_DUPLICATE if the name of one of its tensors is in flight in its set, or if two of its tensors have
 * the same name. After tensor_queue_refuse: the status that was passed there. */
int tensor_queue_submit(struct tensor_queue *queue, struct request *request, hvd_handle *handlep,
                        bool *firstp, struct hvd_error *err);

/* Let all later submissions fail with [status] and [sentence], those of the first call. Messages may still be
 * exchanged while ranks leave: HVD_ERR_SHUTDOWN does not refuse them, until tensor_queue_refuse_messages. */
void tensor_queue_refuse(struct tensor_queue *queue, int status, const char *sentence);
void tensor_queue_refuse_messages(struct tensor_queue *queue);

/* Take all submitted requests but messages, in order, linked by next. NULL if there are none; that does not
 * lock. */
struct request *tensor_queue_take(struct tensor_queue *queue);

/* The same for messages, which concern two ranks, and of which any number may be alike. */
struct request *tensor_queue_take_messages(struct tensor_queue *queue);

/* Are there submitted requests that were not taken yet? Does not lock. */
bool tensor_queue_has_submissions(const struct tensor_queue *queue);

/* Make the names of a finished operation free again, before its callback runs, which may use them. Does not
 * lock. */
void tensor_queue_withdraw(struct request *request);

/* Withdraw all requests in flight in [set] that are not [decided], whether they were taken or not, and return
 * them linked by next. */
#define TENSOR_QUEUE_ALL_SETS (-1)
struct request *tensor_queue_withdraw_undecided(struct tensor_queue *queue, hvd_set set);

/* Give a withdrawn request back to the queue, after its callback has run. The queue then owns it, and frees
 * it or keeps it for reuse. [sentence]: the error, or NULL. Locks only if the request has no handle. */
void tensor_queue_finish(struct tensor_queue *queue, struct request *request, int status,
                         const char *sentence);

/* How many operations were finished or launched so far. While this number stays the same, no test has a new
 * result. Does not lock. */
uint64_t tensor_queue_finished_count(const struct tensor_queue *queue);

/* The status of the operation; HVD_ERR_INVALID if [handle] is not valid. [err] gets the sentence of an error.
 */
int tensor_queue_test(struct tensor_queue *queue, hvd_handle handle, struct hvd_error *err);

/* Is [handle] valid, and are its operation's tensors on the GPU? */
bool tensor_queue_is_on_gpu(struct tensor_queue *queue, hvd_handle handle);

/* The withdrawn operation is in the GPU's queue up to [end], of which the queue takes a share. Does not lock.
 */
void tensor_queue_launch(struct tensor_queue *queue, struct request *request, struct gpu_event *end);

/* The same as tensor_queue_test; but an operation that is launched releases its handle, and sets *endp to its
 * end, a share of which is the caller's: HVD_OK. */
int tensor_queue_test_launched(struct tensor_queue *queue, hvd_handle handle, struct gpu_event **endp,
                               struct hvd_error *err);

/* The same, and release the handle if the operation is done. */
int tensor_queue_test_and_release(struct tensor_queue *queue, hvd_handle handle, struct hvd_error *err);

#endif
