/* loop.h: the path of a tensor: one round takes every operation one step further. */
#ifndef FLOW_LOOP_H
#define FLOW_LOOP_H

#include "control/control.h"
#include "flow/queue.h"
#include "plane/plane.h"

struct loop;

/* [control] is borrowed and outlives the loop; [env] is copied, its epoll_fd filled in, what it points to
 * borrowed. Opens the planes that open early, by [deadline_us]. */
int loop_create(struct loop **loopp, struct control *control, const struct plane_env *env,
                int64_t deadline_us, struct hvd_error *err);

/* Any thread. As queue_submit, which wakes nobody: [kick] wakes hvd's thread; a caller that waits at once
 * needs none. */
int loop_submit(struct loop *loop, struct request *request, bool kick, hvd_handle *handlep,
                struct hvd_error *err);
int loop_test(struct loop *loop, hvd_handle handle, struct hvd_error *err);

/* Any thread but inside a callback: HVD_ERR_STATE. Gives the handle back. */
int loop_wait(struct loop *loop, hvd_handle handle, struct hvd_error *err);

/* Leave with all ranks; waits for them. The status of the job: HVD_OK, or why it could not go on. */
int loop_leave(struct loop *loop, struct hvd_error *err);

/* Bits 1 << enum plane_id of this rank's planes that can carry it: the same at every call. Any thread. */
uint32_t loop_planes(const struct loop *loop, const struct plane_need *need);

/* True inside a callback of this loop. */
bool loop_is_driving(const struct loop *loop);

/* In a forked child: close descriptors, so that this rank's death is seen, and touch nothing else. */
void loop_after_fork(struct loop *loop);

/* Nobody is in a call. What is in flight is forgotten without callbacks. NULL is fine. */
void loop_destroy(struct loop *loop);

#endif
