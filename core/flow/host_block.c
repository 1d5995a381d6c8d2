/* host_block.c: host memory for tensors on their way from and to a GPU. */
#include "config.h"

#include "flow/host_block.h"

#include "cuda/driver_calls.h"

void host_block_free(struct host_block *block, const struct cuda_device *device,
                     const struct host_memory *host_memory)
{
    const struct cuda_driver *driver = device->driver;
    if (block->registered) {
        driver->cuMemHostUnregister(block->memory);
        host_memory->free(host_memory->arg, block->memory, NULL);
    } else if (block->memory != NULL)
        driver->cuMemFreeHost(block->memory);
    *block = (struct host_block){.bytes = 0};
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
    *block = (struct host_block){memory, bytes, .registered = true};
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
    *block = (struct host_block){memory, bytes, .registered = false};
    return HVD_OK;
}
