/* gpu.h: the GPU of this rank, opened at the first tensor on it.
 *
 * It recognises the GPU's memory and has three queues: one for batches, in the order that all ranks agreed
 * on, one for results that come from the host, and one for messages. Events make these queues and the
 * program's streams wait for each other. The host waits for the GPU only in functions whose name says so.
 *
 * hvd uses CUDA's driver only after the process has loaded it, or after a tensor was declared to be on a
 * GPU. */
#ifndef FLOW_GPU_H
#define FLOW_GPU_H

#include <stdbool.h>

#include "backend/backend_env.h"
#include "backend/nccl/nccl.h"
#include "cuda/pack.h"

struct gpu;

/* A point in a queue, reached when all earlier work is done. Reference-counted. */
struct gpu_event;

/* Add a descriptor of the GPU to env->epoll_fd, on which the driver sleeps, once there is a GPU; gpu_notify
 * makes it readable. Uses the log, the configuration and the job of [env], which must outlive the GPU. */
int gpu_create(struct gpu **gpup, const struct backend_env *env, struct hvd_error *err);
void gpu_destroy(struct gpu *gpu); /* NULL is fine. All events must have been released */

/* In a forked child: close descriptors, and touch nothing else. */
void gpu_after_fork(struct gpu *gpu);

/* ---- gpu.c: open the GPU, and whose memory a tensor is. Any thread ---- */

/* Set [*on_devicep] if the tensor is on this rank's GPU, which the first such tensor opens; not set for a
 * memory kind or device that hvd.h does not define. Fails if the tensor is on another GPU than earlier ones,
 * or only its input or output is on a GPU. */
int gpu_find(struct gpu *gpu, const struct hvd_tensor *tensor, bool *on_devicep, struct hvd_error *err);

/* Make GPU [ordinal] this rank's; fails if it already has another one. */
int gpu_need_device(struct gpu *gpu, int ordinal, struct hvd_error *err);

/* Between these two calls, other libraries may make CUDA calls on this GPU in the calling thread. */
int gpu_enter(struct gpu *gpu, int *modep, struct hvd_error *err);
void gpu_leave(struct gpu *gpu, int mode);

/* For NCCL. */
const struct cuda_device *gpu_device(const struct gpu *gpu);

/* ---- gpu_queue.c: streams of the program, events, and the wake-up of the driver. Any thread ---- */

/* Returns HVD_ERR_STATE while the program's [stream] is captured into a graph. */
int gpu_check_stream(struct gpu *gpu, void *stream, struct hvd_error *err);

/* Set [*capturedp] if the program's [stream] is being captured. HVD_ERR_STATE if that capture has failed, or
 * if [stream] is CUDA's default stream while a stream that waits for it is captured. */
int gpu_find_capture(struct gpu *gpu, void *stream, bool *capturedp, struct hvd_error *err);

/* Record an event in the program's [stream], which is not captured. */
int gpu_mark(struct gpu *gpu, void *stream, struct gpu_event **eventp, struct hvd_error *err);

/* Make the program's [stream] wait for the event. */
int gpu_follow(struct gpu_event *event, void *stream, struct hvd_error *err);

struct gpu_event *gpu_event_hold(struct gpu_event *event);
void gpu_event_release(struct gpu_event *event); /* NULL is fine */

/* Wake the driver for a round. Only after this rank has a GPU. */
void gpu_wake_driver(const struct gpu *gpu);

/* ---- gpu_queue.c: events, copies and packing in the GPU's own queues. The driver only ---- */

/* Make all later work wait for the event. */
int gpu_await(struct gpu *gpu, const struct gpu_event *event, struct hvd_error *err);

int gpu_mark_own(struct gpu *gpu, struct gpu_event **eventp, struct hvd_error *err);

/* Copy from the GPU to host memory at [to]. */
int gpu_fetch(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err);

/* Copy on the GPU, in [stream]. */
int gpu_copy(struct gpu *gpu, struct CUstream_st *stream, void *to, const void *from, int64_t bytes,
             struct hvd_error *err);

/* Copy host memory at [from] to the GPU, in a separate queue that does not wait for the GPU's own queue,
 * because GPUs copy in both directions at the same time. */
int gpu_store(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err);

/* As gpu_mark_own, in the queue of gpu_store. */
int gpu_mark_stored(struct gpu *gpu, struct gpu_event **eventp, struct hvd_error *err);

/* Copy between the GPU and the host for a message, in a queue that has only such copies. [*eventp]: when it
 * is done; gpu_notify takes it. */
int gpu_copy_message(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct gpu_event **eventp,
                     struct hvd_error *err);

/* HVD_OK if the GPU has reached the event, HVD_IN_PROGRESS if not, or the GPU's failure. */
int gpu_event_status(const struct gpu_event *event, struct hvd_error *err);

/* Wake the driver when the GPU reaches an event of gpu_mark_own or gpu_mark_stored. */
int gpu_notify(struct gpu *gpu, struct gpu_event *event, struct hvd_error *err);

/* As pack_plan_get, in the GPU's own queue. */
int gpu_plan(struct gpu *gpu, const struct pack_list *list, struct pack_plan **planp, struct hvd_error *err);
void gpu_plan_put(struct pack_plan *plan); /* as pack_plan_put */

/* Arguments of packing or unpacking a batch. */
struct gpu_packing {
    const struct pack_plan *plan;
    void *buffer;
    double scale;
    struct CUstream_st *stream;
};

/* As pack_launch and unpack_launch. */
int gpu_pack(struct gpu *gpu, const struct gpu_packing *packing, struct hvd_error *err);
int gpu_unpack(struct gpu *gpu, const struct gpu_packing *packing, struct hvd_error *err);

/* After a failure: wait until the queues are empty, for at most a few seconds. Returns whether they are. */
bool gpu_settle(struct gpu *gpu);

/* The same until [is_idle] says so of queues that others have; it is asked with the device entered. */
bool gpu_settle_until(struct gpu *gpu, bool (*is_idle)(const void *arg), const void *arg);

/* For NCCL: the queue of the batches. */
struct CUstream_st *gpu_stream(const struct gpu *gpu);

/* ---- gpu_blocks.c: memory that later batches and messages use again. The driver only ---- */

/* A block of host memory for a message. It is put back at its end: for good if its copy, [copied] or NULL, is
 * not done then, as after a failure. */
struct host_block;
int gpu_block_take(struct gpu *gpu, int64_t bytes, struct host_block **blockp, struct hvd_error *err);
void gpu_block_put(struct host_block *block, const struct gpu_event *copied);

/* At least [bytes] of host memory that the GPU reads and writes at full speed. If the block has to grow, its
 * contents are lost, and the call waits until the queues are empty. Each kind has three sides, [block] +
 * side: one batch is copied to the host while another is processed there and a third one is copied back. */
#define GPU_BLOCK_SIDES 3
enum gpu_block {
    GPU_BLOCK_TENSORS = 0,
    GPU_BLOCK_RESULTS = GPU_BLOCK_SIDES,
    GPU_BLOCKS = 2 * GPU_BLOCK_SIDES
};
int gpu_host_block(struct gpu *gpu, int block, int64_t bytes, char **memoryp, struct hvd_error *err);

/* The fusion buffer, which NCCL may register. The first call makes it, of [fusion_bytes], the fusion size of
 * the batch that needs it. [*bytesp] is its size. Size and address do not change from then on, also if the
 * autotuner changes the fusion size: larger groups use gpu_device_block. NULL if NCCL provides no memory. */
void *gpu_fusion_block(struct gpu *gpu, int64_t fusion_bytes, int64_t *bytesp);

/* At least [bytes] of GPU scratch memory for batches that do not use the fusion buffer. If it has to grow,
 * its contents are lost, and the call waits until the queue is empty; then it grows to [fusion_bytes], the
 * fusion size of the batch, if that is more, so that it seldom grows again. */
int gpu_device_block(struct gpu *gpu, int64_t bytes, int64_t fusion_bytes, void **memoryp,
                     struct hvd_error *err);

/* ---- gpu_nccl.c: whether tensors travel by NCCL. Any thread ---- */

/* Returns NCCL, or NULL if it cannot run operations on this GPU. Does not change after the first tensor. */
const struct nccl *gpu_nccl(const struct gpu *gpu);

/* The batches that gpu_nccl supports. */
struct nccl_use gpu_nccl_use(const struct gpu *gpu);

/* Log once why tensors on GPUs travel through host memory. */
void gpu_warn(const struct gpu *gpu, const char *why);

/* ---- gpu_wait.c: the host waits for the GPU ---- */

/* Any thread: when the GPU has done all work that any thread has given it until now, copy between its memory
 * and that of the host, in either direction. Only after this rank has a GPU. The host waits for all that. */
int gpu_wait_and_copy(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err);

/* The driver only: GPU memory that the caller owns. gpu_buffer_destroy makes the host wait for the GPU. */
int gpu_buffer_create(struct gpu *gpu, int64_t bytes, void **memoryp, struct hvd_error *err);
void gpu_buffer_destroy(struct gpu *gpu, void *memory); /* NULL is fine */

#endif
