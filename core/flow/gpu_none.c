/* gpu_none.c: gpu.h in a build without CUDA: no tensor is on a GPU, and to say that one is is an error. */
#include "flow/gpu.h"
#include "flow/gpu_memory.h"

#include <stddef.h>

#include "cuda/driver.h"

/* Nothing is on a GPU, so that these calls are never made. */
static int no_gpu(struct hvd_error *err)
{
    return cuda_driver_open(NULL, NULL, err);
}

int gpu_create(struct gpu **gpup, const struct backend_env *env, struct hvd_error *err)
{
    (void)env;
    (void)err;
    *gpup = NULL;
    return HVD_OK;
}

void gpu_destroy(struct gpu *gpu)
{
    (void)gpu;
}

void gpu_after_fork(struct gpu *gpu)
{
    (void)gpu;
}

int gpu_find(struct gpu *gpu, const struct hvd_tensor *tensor, bool *on_devicep, struct hvd_error *err)
{
    (void)gpu;
    *on_devicep = false;
    bool here = tensor->memory == HVD_MEMORY_ANY || tensor->memory == HVD_MEMORY_HOST;
    return here ? HVD_OK : no_gpu(err);
}

int gpu_check_stream(struct gpu *gpu, void *stream, struct hvd_error *err)
{
    (void)gpu;
    (void)stream;
    return no_gpu(err);
}

int gpu_find_capture(struct gpu *gpu, void *stream, bool *capturedp, struct hvd_error *err)
{
    (void)gpu;
    (void)stream;
    (void)capturedp;
    return no_gpu(err);
}

int gpu_mark(struct gpu *gpu, void *stream, struct gpu_event **eventp, struct hvd_error *err)
{
    (void)gpu;
    (void)stream;
    (void)eventp;
    return no_gpu(err);
}

int gpu_follow(struct gpu_event *event, void *stream, struct hvd_error *err)
{
    (void)event;
    (void)stream;
    return no_gpu(err);
}

struct gpu_event *gpu_event_hold(struct gpu_event *event)
{
    return event;
}

void gpu_event_release(struct gpu_event *event)
{
    (void)event;
}

int gpu_enter(struct gpu *gpu, int *modep, struct hvd_error *err)
{
    (void)gpu;
    (void)modep;
    return no_gpu(err);
}

void gpu_leave(struct gpu *gpu, int mode)
{
    (void)gpu;
    (void)mode;
}

int gpu_await(struct gpu *gpu, const struct gpu_event *event, struct hvd_error *err)
{
    (void)gpu;
    (void)event;
    return no_gpu(err);
}

int gpu_mark_own(struct gpu *gpu, struct gpu_event **eventp, struct hvd_error *err)
{
    (void)gpu;
    (void)eventp;
    return no_gpu(err);
}

int gpu_fetch(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err)
{
    (void)gpu;
    (void)to;
    (void)from;
    (void)bytes;
    return no_gpu(err);
}

int gpu_copy(struct gpu *gpu, struct CUstream_st *stream, void *to, const void *from, int64_t bytes,
             struct hvd_error *err)
{
    (void)gpu;
    (void)stream;
    (void)to;
    (void)from;
    (void)bytes;
    return no_gpu(err);
}

int gpu_store(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err)
{
    (void)gpu;
    (void)to;
    (void)from;
    (void)bytes;
    return no_gpu(err);
}

int gpu_mark_stored(struct gpu *gpu, struct gpu_event **eventp, struct hvd_error *err)
{
    (void)gpu;
    (void)eventp;
    return no_gpu(err);
}

int gpu_event_status(const struct gpu_event *event, struct hvd_error *err)
{
    (void)event;
    return no_gpu(err);
}

void gpu_notify(struct gpu *gpu, struct gpu_event *event)
{
    (void)gpu;
    (void)event;
}

void gpu_settle(struct gpu *gpu)
{
    (void)gpu;
}

int gpu_host_block(struct gpu *gpu, int block, int64_t bytes, char **memoryp, struct hvd_error *err)
{
    (void)gpu;
    (void)block;
    (void)bytes;
    (void)memoryp;
    return no_gpu(err);
}

void *gpu_fusion_block(struct gpu *gpu, int64_t *bytesp)
{
    (void)gpu;
    (void)bytesp;
    return NULL;
}

int gpu_device_block(struct gpu *gpu, int64_t bytes, void **memoryp, struct hvd_error *err)
{
    (void)gpu;
    (void)bytes;
    (void)memoryp;
    return no_gpu(err);
}

int gpu_plan(struct gpu *gpu, const struct pack_list *list, struct pack_plan **planp, struct hvd_error *err)
{
    (void)gpu;
    (void)list;
    (void)planp;
    return no_gpu(err);
}

void gpu_plan_put(struct pack_plan *plan)
{
    (void)plan;
}

int gpu_pack(struct gpu *gpu, const struct gpu_packing *packing, struct hvd_error *err)
{
    (void)gpu;
    (void)packing;
    return no_gpu(err);
}

int gpu_unpack(struct gpu *gpu, const struct gpu_packing *packing, struct hvd_error *err)
{
    (void)gpu;
    (void)packing;
    return no_gpu(err);
}

int gpu_buffer_create(struct gpu *gpu, int64_t bytes, void **memoryp, struct hvd_error *err)
{
    (void)gpu;
    (void)bytes;
    (void)memoryp;
    return no_gpu(err);
}

void gpu_buffer_destroy(struct gpu *gpu, void *memory)
{
    (void)gpu;
    (void)memory;
}

void gpu_warn(const struct gpu *gpu, const char *why)
{
    (void)gpu;
    (void)why;
}

const struct nccl *gpu_nccl(const struct gpu *gpu)
{
    (void)gpu;
    return NULL;
}

struct nccl_use gpu_nccl_use(const struct gpu *gpu)
{
    (void)gpu;
    return (struct nccl_use){.possible = false};
}

const struct cuda_device *gpu_device(const struct gpu *gpu)
{
    (void)gpu;
    return NULL;
}

struct CUstream_st *gpu_stream(const struct gpu *gpu)
{
    (void)gpu;
    return NULL;
}

/* ---- gpu_memory.h ------------------------------------------------------------------------------ */

int gpu_memory_create(struct gpu *gpu, int ordinal, int64_t bytes, struct gpu_memory **memoryp,
                      struct hvd_error *err)
{
    (void)gpu;
    (void)ordinal;
    (void)bytes;
    (void)memoryp;
    return no_gpu(err);
}

void *gpu_memory_address(const struct gpu_memory *memory)
{
    (void)memory;
    return NULL;
}

void gpu_memory_free(struct gpu_memory *memory)
{
    (void)memory;
}

uint64_t gpu_memory_offsets(struct gpu *gpu, const void *input, const void *output, int64_t bytes)
{
    (void)gpu;
    (void)input;
    (void)output;
    (void)bytes;
    return 0;
}

const struct gpu_memory *gpu_memory_find(struct gpu *gpu, const void *address)
{
    (void)gpu;
    (void)address;
    return NULL;
}

bool gpu_memory_contains(const struct gpu_memory *memory, const void *address)
{
    (void)memory;
    (void)address;
    return false;
}

void *gpu_memory_bytes(const struct gpu_memory *memory, int64_t *bytesp)
{
    (void)memory;
    *bytesp = 0;
    return NULL;
}

struct gpu_memory *gpu_memory_freed(struct gpu *gpu)
{
    (void)gpu;
    return NULL;
}

void gpu_memory_destroy(struct gpu_memory *memory)
{
    (void)memory;
}
