/* host_block.h: host memory that a GPU reads and writes at full speed, for tensors on their way. It is like
 * that of hvd_alloc if possible: then the ranks of this node reduce it where it lies. */
#ifndef FLOW_HOST_BLOCK_H
#define FLOW_HOST_BLOCK_H

#include "backend/backend_env.h"
#include "cuda/device.h"

/* Zeroed: it has no memory. */
struct host_block {
    char *memory;
    int64_t bytes;
    bool registered; /* memory of [host_memory], which CUDA has pinned; else CUDA's own */
};

/* Give the block at least [bytes]; what it had is freed. The caller has entered the device. */
int host_block_grow(struct host_block *block, const struct cuda_device *device,
                    const struct host_memory *host_memory, int64_t bytes, struct hvd_error *err);

/* The same for freeing. */
void host_block_free(struct host_block *block, const struct cuda_device *device,
                     const struct host_memory *host_memory);

#endif
