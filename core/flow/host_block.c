/* host_block.c: host memory for tensors on their way from and to a GPU. */
#include "config.h"

#include "flow/host_block.h"

#include <stdlib.h>

#include "base/round_up.h"
#include "cuda/driver_calls.h"

/* Blocks of a pool have a multiple of it, so that messages of about the same size share them. */
#define POOL_UNIT_BYTES (INT64_C(256) << 10)

void host_block_free(struct host_block *block, const struct cuda_device *device,
                     const struct host_memory *host_memory)
{
    const struct cuda_driver *driver = device->driver;
    if (block->registered) {
        driver->cuMemHostUnregister(block->memory);
        host_memory->free(host_memory->arg, block->memory, NULL);
    } else if (block->memory != NULL)
        driver->cuMemFreeHost(block->memory);
    block->memory = NULL;
    block->bytes = 0;
    block->registered = false;
}

/* CUDA may be unable to pin what it has not allocated: in a virtual machine, or by a driver's settings. */
static bool take_host_memory(struct host_block *block, const struct cuda_device *device,
                             const struct host_memory *host_memory, int64_t bytes)
{
    void *memory = NULL;
    if (host_memory->allocate == NULL ||
        host_memory->allocate(host_memory->arg, bytes, &memory, NULL) != HVD_OK)
        return false;
    if (device->driver->cuMemHostRegister(memory, (size_t)bytes, CU_MEMHOSTREGISTER_PORTABLE) !=
        CUDA_SUCCESS) {
        host_memory->free(host_memory->arg, memory, NULL);
        return false;
    }
    block->memory = memory;
    block->bytes = bytes;
    block->registered = true;
    return true;
}

int host_block_grow(struct host_block *block, const struct cuda_device *device,
                    const struct host_memory *host_memory, int64_t bytes, struct hvd_error *err)
{
    void *memory = NULL;
    host_block_free(block, device, host_memory);
    if (take_host_memory(block, device, host_memory, bytes))
        return HVD_OK;
    CUresult result = device->driver->cuMemHostAlloc(&memory, (size_t)bytes, CU_MEMHOSTALLOC_PORTABLE);
    if (result != CUDA_SUCCESS)
        return cuda_error(device->driver, result, err,
                          "no pinned memory of %lld bytes for tensors on their way from and to GPU %d",
                          (long long)bytes, device->ordinal);
    block->memory = memory;
    block->bytes = bytes;
    return HVD_OK;
}

/* ---- Several ------------------------------------------------------------------------------------- */

/* The smallest one that is large enough; NULL: none is. */
static struct host_block *find_free(struct host_block_pool *pool, int64_t bytes)
{
    struct host_block *block = NULL;
    struct host_block *best = NULL;
    SLIST_FOREACH(block, pool, link)
    {
        if (!block->taken && block->bytes >= bytes && (best == NULL || block->bytes < best->bytes))
            best = block;
    }
    return best;
}

int host_block_pool_take(struct host_block_pool *pool, const struct cuda_device *device,
                         const struct host_memory *host_memory, int64_t bytes, struct host_block **blockp,
                         struct hvd_error *err)
{
    struct host_block *block = find_free(pool, bytes);
    if (block == NULL) {
        block = calloc(1, sizeof(*block));
        if (block == NULL)
            return error_set_errno(err, "no memory for %zu bytes", sizeof(*block));
        int rc = host_block_grow(block, device, host_memory, round_up(bytes, POOL_UNIT_BYTES), err);
        if (rc != HVD_OK) {
            free(block);
            return rc;
        }
        SLIST_INSERT_HEAD(pool, block, link);
    }
    block->taken = true;
    *blockp = block;
    return HVD_OK;
}

void host_block_pool_free(struct host_block_pool *pool, const struct cuda_device *device,
                          const struct host_memory *host_memory)
{
    while (!SLIST_EMPTY(pool)) {
        struct host_block *block = SLIST_FIRST(pool);
        SLIST_REMOVE_HEAD(pool, link);
        host_block_free(block, device, host_memory);
        free(block);
    }
}
