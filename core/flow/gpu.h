/* gpu.h: the GPU of this rank, from the first tensor on it: which memory is its, one queue of its own into
 * which batches go in the order that all ranks agreed on, another one for results that come from the host,
 * and events, by which those queues and the program's streams wait for each other. The host waits for the GPU
 * only where a name says so.
 *
 * Nothing is loaded, and CUDA's driver is not asked, before the process has loaded it or a tensor is said to
 * be on a GPU. Without CUDA gpu_none.c takes the place of gpu.c, and says so. */
#ifndef FLOW_GPU_H
#define FLOW_GPU_H

#include <stdbool.h>

#include "backend/backend_env.h"
#include "backend/nccl/nccl.h"
#include "cuda/pack.h"

struct gpu;

/* A moment in a queue: when all that was put into it before is done. Shared by count. */
struct gpu_event;

/* env->epoll_fd, which the driver sleeps on, gets a descriptor of the GPU once there is one: gpu_notify makes
 * it readable. Of [env] the log, the configuration and the job are used, which outlive the GPU. */
int gpu_create(struct gpu **gpup, const struct backend_env *env, struct hvd_error *err);
void gpu_destroy(struct gpu *gpu); /* NULL is fine. All events have been released */

/* In a forked child: close descriptors, and touch nothing else. */
void gpu_after_fork(struct gpu *gpu);

/* ---- Any thread ---- */

/* Is the tensor on the GPU? Not one of a memory or device that hvd.h does not know. Opens it for the first
 * tensor there. An error where it is on another GPU than earlier ones, or only half on it. */
int gpu_find(struct gpu *gpu, const struct hvd_tensor *tensor, bool *on_devicep, struct hvd_error *err);

/* HVD_ERR_STATE while the program's [stream] is captured into a graph. */
int gpu_check_stream(struct gpu *gpu, void *stream, struct hvd_error *err);

/* Is the program's [stream] captured? HVD_ERR_STATE where that has failed, or where the stream is CUDA's
 * default one, which a capture of another stream waits for. */
int gpu_find_capture(struct gpu *gpu, void *stream, bool *capturedp, struct hvd_error *err);

/* Now in the program's [stream], which is not captured. */
int gpu_mark(struct gpu *gpu, void *stream, struct gpu_event **eventp, struct hvd_error *err);

/* Let the program's [stream] wait for the event. */
int gpu_follow(struct gpu_event *event, void *stream, struct hvd_error *err);

struct gpu_event *gpu_event_hold(struct gpu_event *event);
void gpu_event_release(struct gpu_event *event); /* NULL is fine */

/* GPU [ordinal] is this rank's from now on; an error where another one is. */
int gpu_need_device(struct gpu *gpu, int ordinal, struct hvd_error *err);

/* The driver makes a round. Once this rank has a GPU. */
void gpu_wake_driver(const struct gpu *gpu);

/* NCCL, where tensors on this GPU may travel by it; otherwise NULL. It does not change after the first
 * tensor. */
const struct nccl *gpu_nccl(const struct gpu *gpu);

/* What it carries. */
struct nccl_use gpu_nccl_use(const struct gpu *gpu);

/* Say once why tensors on GPUs travel through host memory. */
void gpu_warn(const struct gpu *gpu, const char *why);

/* Between these two calls the thread may let other libraries make calls of CUDA on this GPU. */
int gpu_enter(struct gpu *gpu, int *modep, struct hvd_error *err);
void gpu_leave(struct gpu *gpu, int mode);

/* ---- The driver only: what goes into the GPU's own queue ---- */

/* All that comes later waits for the event. */
int gpu_await(struct gpu *gpu, const struct gpu_event *event, struct hvd_error *err);

int gpu_mark_own(struct gpu *gpu, struct gpu_event **eventp, struct hvd_error *err);

/* Copy from the GPU [to] memory of the host. */
int gpu_fetch(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err);

/* Copy on the GPU, in [stream]. */
int gpu_copy(struct gpu *gpu, struct CUstream_st *stream, void *to, const void *from, int64_t bytes,
             struct hvd_error *err);

/* Copy to the GPU [from] memory of the host, in the queue for that: it waits for nothing that the GPU's own
 * queue has, and GPUs copy in both directions at the same time. */
int gpu_store(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err);

/* As gpu_mark_own, in the queue of gpu_store. */
int gpu_mark_stored(struct gpu *gpu, struct gpu_event **eventp, struct hvd_error *err);

/* HVD_OK: the GPU has reached it; HVD_IN_PROGRESS; or the GPU has failed. */
int gpu_event_status(const struct gpu_event *event, struct hvd_error *err);

/* Wake the driver when the GPU has reached it; an event of gpu_mark_own or gpu_mark_stored. */
void gpu_notify(struct gpu *gpu, struct gpu_event *event);

/* Wait until the queues are empty, for at most a few seconds: for failures. */
void gpu_settle(struct gpu *gpu);

/* Memory of the host that the GPU reads and writes at full speed, at least [bytes]. What a block was before
 * may go: where it has to grow, this waits until the queues are empty. There are three of each, [block] +
 * side, so that one batch is copied to the host while another is at work there and a third one is copied
 * back. */
#define GPU_BLOCK_SIDES 3
enum gpu_block {
    GPU_BLOCK_TENSORS = 0,
    GPU_BLOCK_RESULTS = GPU_BLOCK_SIDES,
    GPU_BLOCKS = 2 * GPU_BLOCK_SIDES
};
int gpu_host_block(struct gpu *gpu, int block, int64_t bytes, char **memoryp, struct hvd_error *err);

/* The fusion buffer that NCCL may register, of [*bytesp] bytes, which do not change; NULL where NCCL gives no
 * memory. */
void *gpu_fusion_block(struct gpu *gpu, int64_t *bytesp);

/* Memory of the GPU, at least [bytes], for what does not go there. What it was before may go: where it has to
 * grow, this waits until the queue is empty. */
int gpu_device_block(struct gpu *gpu, int64_t bytes, void **memoryp, struct hvd_error *err);

/* Memory of the GPU that is the caller's. Giving it back makes the host wait for the GPU. */
int gpu_buffer_create(struct gpu *gpu, int64_t bytes, void **memoryp, struct hvd_error *err);
void gpu_buffer_destroy(struct gpu *gpu, void *memory); /* NULL is fine */

/* As pack_plan_get, in the GPU's own queue. */
int gpu_plan(struct gpu *gpu, const struct pack_list *list, struct pack_plan **planp, struct hvd_error *err);
void gpu_plan_put(struct pack_plan *plan); /* as pack_plan_put */

/* How a batch is packed, or unpacked. */
struct gpu_packing {
    const struct pack_plan *plan;
    void *buffer;
    double scale;
    struct CUstream_st *stream;
};

/* As pack_launch and unpack_launch. */
int gpu_pack(struct gpu *gpu, const struct gpu_packing *packing, struct hvd_error *err);
int gpu_unpack(struct gpu *gpu, const struct gpu_packing *packing, struct hvd_error *err);

/* For NCCL: the device, and the queue itself. */
const struct cuda_device *gpu_device(const struct gpu *gpu);
struct CUstream_st *gpu_stream(const struct gpu *gpu);

#endif
