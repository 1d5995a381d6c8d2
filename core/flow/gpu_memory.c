/* gpu_memory.c: memory of hvd_alloc_on: on this rank's GPU, and numbered alike on all ranks. */
#include "config.h"

#include "flow/gpu_memory.h"

#include <stdlib.h>

#include "backend/nccl/nccl.h"
#include "base/hash.h"
#include "cuda/device.h"
#include "cuda/driver_calls.h"
#include "flow/gpu.h"
#include "flow/gpu_memory_registry.h"

struct gpu_memory {
    TAILQ_ENTRY(gpu_memory) link;
    struct gpu *gpu; /* NULL: the job that gave it is over */
    char *begin;
    int64_t bytes;
    uint64_t number; /* in its job, from 1 */
    bool freed;
    /* its own, to outlive the job */
    struct cuda_driver *driver;
    struct cuda_device device;
    struct nccl *nccl; /* NULL: it is CUDA's, and is not registered */
};

/* ---- Its memory -------------------------------------------------------------------------------- */

/* NCCL's, or where that gives none, CUDA's. The device's context is current. */
static int allocate_on_gpu(struct gpu_memory *memory, const struct nccl *nccl, struct hvd_error *err)
{
    CUdeviceptr address = 0;
    if (nccl != NULL)
        memory->begin = nccl_memory_create(nccl, &memory->device, memory->bytes);
    if (memory->begin != NULL) {
        memory->nccl = nccl_hold(nccl);
        return HVD_OK;
    }
    CUresult result = memory->driver->cuMemAlloc(&address, (size_t)memory->bytes);
    memory->begin = (char *)(uintptr_t)address;
    return result == CUDA_SUCCESS
               ? HVD_OK
               : cuda_error(memory->driver, result, err, "no memory of %lld bytes on GPU %d",
                            (long long)memory->bytes, memory->device.ordinal);
}

static void release(struct gpu_memory *memory)
{
    int mode = 0;
    if (memory->begin == NULL || cuda_device_enter(&memory->device, &mode, NULL) != HVD_OK)
        return;
    if (memory->nccl != NULL)
        nccl_memory_destroy(memory->nccl, memory->begin);
    else
        memory->driver->cuMemFree((CUdeviceptr)(uintptr_t)memory->begin);
    cuda_device_leave(&memory->device, mode);
}

static void destroy(struct gpu_memory *memory)
{
    release(memory);
    cuda_device_close(&memory->device);
    cuda_driver_close(memory->driver);
    nccl_close(memory->nccl);
    free(memory);
}

static int open_memory(struct gpu_memory *memory, const struct nccl *nccl, int ordinal, struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_driver_open(NULL, &memory->driver, err);
    if (rc == HVD_OK)
        rc = cuda_device_open(memory->driver, ordinal, &memory->device, err);
    if (rc == HVD_OK)
        rc = cuda_device_enter(&memory->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    rc = allocate_on_gpu(memory, nccl, err);
    cuda_device_leave(&memory->device, mode);
    return rc;
}

/* ---- Any thread -------------------------------------------------------------------------------- */

/* One that cannot be had is counted too: the next ones have the same numbers on all ranks. */
int gpu_memory_create(struct gpu *gpu, int ordinal, int64_t bytes, struct gpu_memory **memoryp,
                      struct hvd_error *err)
{
    struct gpu_memory_registry *registry = gpu_memory_registry(gpu);
    struct gpu_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*memory));
    memory->gpu = gpu;
    memory->bytes = bytes;
    pthread_mutex_lock(&registry->lock);
    memory->number = ++registry->count;
    pthread_mutex_unlock(&registry->lock);
    int rc = gpu_need_device(gpu, ordinal, err);
    if (rc == HVD_OK)
        rc = open_memory(memory, gpu_nccl(gpu), ordinal, err);
    if (rc != HVD_OK) {
        destroy(memory);
        return rc;
    }
    pthread_mutex_lock(&registry->lock);
    TAILQ_INSERT_TAIL(&registry->list, memory, link);
    pthread_mutex_unlock(&registry->lock);
    atomic_store_explicit(&registry->any, true, memory_order_release);
    *memoryp = memory;
    return HVD_OK;
}

void *gpu_memory_address(const struct gpu_memory *memory)
{
    return memory->begin;
}

void gpu_memory_free(struct gpu_memory *memory)
{
    struct gpu *gpu = memory->gpu;
    if (gpu == NULL) {
        destroy(memory);
        return;
    }
    struct gpu_memory_registry *registry = gpu_memory_registry(gpu);
    pthread_mutex_lock(&registry->lock);
    memory->freed = true;
    pthread_mutex_unlock(&registry->lock);
    atomic_store_explicit(&registry->any_freed, true, memory_order_release);
    gpu_wake_driver(gpu);
}

static bool contains(const struct gpu_memory *memory, const void *address)
{
    uintptr_t begin = (uintptr_t)memory->begin;
    return (uintptr_t)address >= begin && (uintptr_t)address - begin < (uint64_t)memory->bytes;
}

static struct gpu_memory *find_memory_locked(const struct gpu_memory_registry *registry, const void *address)
{
    struct gpu_memory *memory = NULL;
    TAILQ_FOREACH(memory, &registry->list, link)
    {
        if (contains(memory, address))
            break;
    }
    return memory;
}

static uint64_t offsets_locked(const struct gpu_memory_registry *registry, const void *input,
                               const void *output, int64_t bytes)
{
    const struct gpu_memory *memory = find_memory_locked(registry, input);
    if (memory == NULL || memory->nccl == NULL || memory->freed || !contains(memory, output))
        return 0;
    uint64_t input_at = (uint64_t)((const char *)input - memory->begin);
    uint64_t output_at = (uint64_t)((const char *)output - memory->begin);
    if ((uint64_t)bytes > (uint64_t)memory->bytes - input_at)
        return 0;
    uint64_t offsets = hash_mix(hash_mix(memory->number, (uint64_t)memory->bytes), input_at);
    offsets = hash_mix(offsets, output_at);
    return offsets != 0 ? offsets : 1;
}

uint64_t gpu_memory_offsets(struct gpu *gpu, const void *input, const void *output, int64_t bytes)
{
    struct gpu_memory_registry *registry = gpu_memory_registry(gpu);
    if (bytes == 0 || !atomic_load_explicit(&registry->any, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&registry->lock);
    uint64_t offsets = offsets_locked(registry, input, output, bytes);
    pthread_mutex_unlock(&registry->lock);
    return offsets;
}

/* ---- The driver -------------------------------------------------------------------------------- */

const struct gpu_memory *gpu_memory_find(struct gpu *gpu, const void *address)
{
    struct gpu_memory_registry *registry = gpu_memory_registry(gpu);
    pthread_mutex_lock(&registry->lock);
    const struct gpu_memory *memory = find_memory_locked(registry, address);
    pthread_mutex_unlock(&registry->lock);
    return memory;
}

void *gpu_memory_bytes(const struct gpu_memory *memory, int64_t *bytesp)
{
    *bytesp = memory->bytes;
    return memory->begin;
}

struct gpu_memory *gpu_memory_freed(struct gpu *gpu)
{
    struct gpu_memory_registry *registry = gpu_memory_registry(gpu);
    struct gpu_memory *memory = NULL;
    if (!atomic_load_explicit(&registry->any_freed, memory_order_acquire))
        return NULL;
    pthread_mutex_lock(&registry->lock);
    TAILQ_FOREACH(memory, &registry->list, link)
    {
        if (memory->freed)
            break;
    }
    atomic_store_explicit(&registry->any_freed, memory != NULL, memory_order_relaxed);
    pthread_mutex_unlock(&registry->lock);
    return memory;
}

void gpu_memory_destroy(struct gpu_memory *memory)
{
    struct gpu_memory_registry *registry = gpu_memory_registry(memory->gpu);
    pthread_mutex_lock(&registry->lock);
    TAILQ_REMOVE(&registry->list, memory, link);
    pthread_mutex_unlock(&registry->lock);
    destroy(memory);
}

/* ---- All of a job's ---------------------------------------------------------------------------- */

void gpu_memory_registry_init(struct gpu_memory_registry *registry)
{
    TAILQ_INIT(&registry->list);
    pthread_mutex_init(&registry->lock, NULL);
}

void gpu_memory_registry_fini(struct gpu_memory_registry *registry)
{
    struct gpu_memory *next = NULL;
    for (struct gpu_memory *memory = TAILQ_FIRST(&registry->list); memory != NULL; memory = next) {
        next = TAILQ_NEXT(memory, link);
        memory->gpu = NULL;
        if (memory->freed)
            destroy(memory);
    }
    pthread_mutex_destroy(&registry->lock);
}
