/* loop.h: the path of a tensor: one round takes every operation one step further. */
#ifndef FLOW_LOOP_H
#define FLOW_LOOP_H

#include "control/control.h"
#include "flow/tensor_queue.h"
#include "flow/set_registry.h"
#include "backend/backend.h"

struct loop;

/* [control] and [trace] (NULL: none) are borrowed and outlive the loop; [env] is copied, its epoll_fd filled
 * in, what it points to borrowed. Opens the backends that open early, by [deadline_us]. */
int loop_create(struct loop **loopp, struct control *control, struct trace *trace,
                const struct backend_env *env, int64_t deadline_us, struct hvd_error *err);

/* Any thread; as tensor_queue_reuse and tensor_queue_discard. */
struct request *loop_reuse(struct loop *loop, hvd_set set, const char *name);
void loop_discard(struct loop *loop, struct request *request);

/* Any thread. [request] is the loop's from then on; on failure it stays the caller's. As tensor_queue_submit,
 * which wakes nobody: [kick] wakes hvd's thread; a caller that waits at once needs none. A set that is
 * removed meanwhile ends it with HVD_ERR_SET; the other checks are the caller's. */
int loop_submit(struct loop *loop, struct request *request, bool kick, hvd_handle *handlep,
                struct hvd_error *err);
int loop_test(struct loop *loop, hvd_handle handle, struct hvd_error *err);

/* Any thread but inside a callback: HVD_ERR_STATE. Gives the handle back. */
int loop_wait(struct loop *loop, hvd_handle handle, struct hvd_error *err);

/* Leave with all ranks; waits for them. The status of the job: HVD_OK, or why it could not go on. */
int loop_leave(struct loop *loop, struct hvd_error *err);

/* Bits 1 << enum backend_id of this rank's backends that can carry [desc], for request->backends: of a join
 * those that it has at all; 0 where none can, where its set is not known, for Adasum on a team of the wrong
 * size, or for what needs none. The same at every call while the set exists. Any thread. */
uint32_t loop_backends(const struct loop *loop, const struct desc *desc);

/* The process sets, HVD_ALL_RANKS among them. Queries come from any thread, changes from the loop only. */
struct set_registry *loop_set_registry(const struct loop *loop);

/* True inside a callback of this loop. */
bool loop_is_driver(const struct loop *loop);

/* In a forked child: close descriptors, so that this rank's death is seen, and touch nothing else. */
void loop_after_fork(struct loop *loop);

/* Nobody is in a call. What is in flight is forgotten without callbacks. NULL is fine. */
void loop_destroy(struct loop *loop);

#endif
