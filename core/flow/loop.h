/* loop.h: the path of a tensor, from its submission to its callback. This folder promises that every
 * operation that is submitted ends once: with its result, or with a status and a sentence that say why not.
 *
 * The stages, in the order in which a tensor goes through them, each calling only those behind it:
 *   tensor_queue   requests of the user's threads
 *   negotiation    what all ranks agree on, in one order (by negotiate/)
 *   form           that becomes batches, whose tensors fuse
 *   run            batches run one after another, in the order of the batch_queue: through host memory
 *                  (host_steps) or by NCCL (direct_steps)
 *   finish         results, status and callback
 * A send or receive goes by another way: messages gives it to p2p/, which carries it to its rank, and finish
 * ends it.
 * Beside them: gpu (this rank's GPU; staging takes its tensors through host memory), failure (the job cannot
 * go on), set_change (process sets come and go), stall_inspector, trials (autotuning). loop.c calls the
 * stages in turn; progress decides which thread does that: the driver.
 *
 * The folder sees backends through backend.h, backend_env.h and backends.h of backend/ alone, arithmetic on
 * elements through backend/arith/reduce.h, NCCL through backend/nccl/nccl.h, GPUs through cuda/, the control
 * tree through control/control.h, messages through p2p/p2p.h, and the names of ranks through
 * net/peer_table.h. api/ sees this header, and by it the tensor queue, the set registry and memory of the
 * GPU. */
#ifndef FLOW_LOOP_H
#define FLOW_LOOP_H

#include "backend/backend_env.h"
#include "control/control.h"
#include "flow/gpu_memory.h"
#include "flow/set_registry.h"
#include "flow/tensor_queue.h"

struct loop;

/* [control] and [trace] (NULL: none) stay the caller's and outlive the loop. [env] is copied but for what it
 * points to, and gets the loop's epoll_fd. Opens the backends that open early, by [deadline_us]. */
int loop_create(struct loop **loopp, struct control *control, struct trace *trace,
                const struct backend_env *env, int64_t deadline_us, struct hvd_error *err);

/* Any thread, for tensor_queue_reuse, tensor_queue_discard and tensor_queue_test; the other calls are the
 * loop's. */
struct tensor_queue *loop_tensor_queue(const struct loop *loop);

/* Any thread. The loop owns [request] from then on, also if it refuses it. As tensor_queue_submit, which
 * wakes no thread: [kick] wakes hvd's. A caller that waits right away needs no kick. An operation in a set
 * that is removed meanwhile ends with HVD_ERR_SET; all other checks are the caller's. */
int loop_submit(struct loop *loop, struct request *request, bool kick, hvd_handle *handlep,
                struct hvd_error *err);

/* Any thread; HVD_ERR_STATE inside a callback. Releases the handle; HVD_IN_PROGRESS, and the handle stays
 * valid, if the operation is not done at [until_us], in the time of clock_us. INT64_MAX: without a limit. */
int loop_wait(struct loop *loop, hvd_handle handle, int64_t until_us, struct hvd_error *err);

/* Any thread; HVD_ERR_STATE inside a callback. As loop_wait, but an operation on the GPU need only be
 * launched: then [stream] waits for its end. */
int loop_wait_on_stream(struct loop *loop, hvd_handle handle, void *stream, int64_t until_us,
                        struct hvd_error *err);

/* Any thread: submit [request], which the loop owns from then on, wait for it, and make a persistent
 * operation of it. */
int loop_make_persistent(struct loop *loop, struct request *request, hvd_persistent *persistentp,
                         struct hvd_error *err);

/* Any thread: what hvd_persistent_start and hvd_persistent_free do. The start waits until the operation is in
 * [stream]; HVD_ERR_STATE inside a callback. */
int loop_start_persistent(struct loop *loop, hvd_persistent number, void *stream, struct hvd_error *err);
int loop_free_persistent(struct loop *loop, hvd_persistent number, struct hvd_error *err);

/* This rank's GPU, for gpu_find and gpu_mark. */
struct gpu *loop_gpu(const struct loop *loop);

/* Leave together with all ranks, and wait for them. The status of the job: HVD_OK, or why it ended. */
int loop_leave(struct loop *loop, struct hvd_error *err);

/* backend_choice of this rank's backends, for request->backends. Any thread. */
uint32_t loop_backends(const struct loop *loop, const struct desc *desc);

/* The process sets, HVD_ALL_RANKS among them. Any thread may query; only the loop changes it. */
struct set_registry *loop_set_registry(const struct loop *loop);

/* HVD_ERR_STATE inside a callback of this loop, where [call] must not be made because it waits. */
int loop_check_not_in_callback(const struct loop *loop, const char *call, struct hvd_error *err);

/* In a forked child: close descriptors, so that the other ranks notice when this rank dies, and touch nothing
 * else. */
void loop_after_fork(struct loop *loop);

/* Has the program closed descriptors of hvd? Their numbers may be its own files' by now, so nothing of the
 * job may be closed any more. */
bool loop_is_closed(const struct loop *loop);

/* If it has: stop the thread, and leave everything else as it is. False: nothing was done. */
bool loop_abandon(struct loop *loop);

/* No thread is in a call, and no operation is in flight: loop_leave has ended all. NULL is fine. */
void loop_destroy(struct loop *loop);

#endif
