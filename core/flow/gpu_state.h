/* gpu_state.h: what the files of gpu.h share: gpu.c, gpu_queue.c, gpu_blocks.c and gpu_nccl.c. */
#ifndef FLOW_GPU_STATE_H
#define FLOW_GPU_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cuda/device.h"
#include "cuda/driver_calls.h"
#include "flow/gpu.h"
#include "flow/gpu_memory_registry.h"
#include "flow/host_block.h"

/* A queue of the GPU. The calls that wake the driver run in a second stream, so that they do not delay the
 * first one. Each queue has such a stream, because events of different queues complete in any order. */
struct gpu_queue {
    CUstream stream, notify_stream;
};

struct gpu {
    const struct hvd_config *config;
    const struct hvd_job *job;
    const struct hvd_log *log;
    int epoll_fd;
    _Atomic bool driver_loaded; /* by the program */
    _Atomic bool opened;
    pthread_mutex_t lock;     /* of what follows, until it is opened; and of free_events */
    unsigned long long loads; /* of libraries in this process, at the last look for the driver's */
    struct cuda_driver *driver;
    bool driver_fails;
    struct hvd_error why;
    struct cuda_device device;
    struct gpu_queue own, stores, messages;
    int notify_fd;
    struct gpu_event *free_events;
    struct nccl *nccl; /* NULL: tensors travel through the host */
    struct nccl_use nccl_use;
    struct gpu_memory_registry registry;
    /* the driver's */
    struct pack_kernels *kernels;
    struct host_memory host_memory;
    struct host_block blocks[GPU_BLOCKS];
    struct host_block_pool message_blocks;
    void *fusion_block; /* NCCL's */
    int64_t fusion_block_bytes;
    bool fusion_block_asked;
    CUdeviceptr device_block;
    int64_t device_block_bytes;
};

/* ---- gpu_queue.c ---- */

/* Make the queues, and the descriptor by which they wake the driver. The caller has entered the device. */
int gpu_open_queues(struct gpu *gpu, struct hvd_error *err);
void gpu_close_queues(struct gpu *gpu); /* also those that gpu_open_queues made before it failed */

/* Free the events that nobody holds. CUDA's part of them goes only while the device is [entered]. */
void gpu_free_events(struct gpu *gpu, bool entered);

/* ---- gpu_blocks.c ---- */

/* The caller has entered the device. */
void gpu_free_blocks(struct gpu *gpu);

/* ---- gpu_nccl.c ---- */

/* Open NCCL if the options allow it, and log which one it is, or why there is none. */
void gpu_open_nccl(struct gpu *gpu);

#endif
