/* host_block.h: host memory that a GPU reads and writes at full speed, for tensors on their way. It is like
 * that of hvd_alloc if possible: then the ranks of this node reduce it where it lies. */
#ifndef FLOW_HOST_BLOCK_H
#define FLOW_HOST_BLOCK_H

#include <sys/queue.h>

#include "backend/backend_env.h"
#include "cuda/device.h"

/* Zeroed: it has no memory. */
struct host_block {
    char *memory;
    int64_t bytes;
    bool registered; /* memory of [host_memory], which CUDA has pinned; else CUDA's own */
    bool taken;      /* from its pool */
    SLIST_ENTRY(host_block) link;
};

SLIST_HEAD(host_block_pool, host_block);

/* Give the block at least [bytes]; what it had is freed. The caller has entered the device. */
int host_block_grow(struct host_block *block, const struct cuda_device *device,
                    const struct host_memory *host_memory, int64_t bytes, struct hvd_error *err);

/* The same for freeing. */
void host_block_free(struct host_block *block, const struct cuda_device *device,
                     const struct host_memory *host_memory);

/* A block of at least [bytes] that nobody has taken. Pools only grow, since CUDA waits for the GPU when it
 * frees pinned memory; who has taken a block puts it back by [taken]. The caller has entered the device. */
int host_block_pool_take(struct host_block_pool *pool, const struct cuda_device *device,
                         const struct host_memory *host_memory, int64_t bytes, struct host_block **blockp,
                         struct hvd_error *err);
void host_block_pool_free(struct host_block_pool *pool, const struct cuda_device *device,
                          const struct host_memory *host_memory);

#endif
