/* gpu_blocks.c: memory for tensors on their way through this rank's GPU, which later batches and messages use
 * again. */
#include "config.h"

#include "flow/gpu.h"
#include "flow/gpu_state.h"

/* ---- Host memory ------------------------------------------------------------------------------ */

int gpu_block_take(struct gpu *gpu, int64_t bytes, struct host_block **blockp, struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    rc = host_block_pool_take(&gpu->message_blocks, &gpu->device, &gpu->host_memory, bytes, blockp, err);
    cuda_device_leave(&gpu->device, mode);
    return rc;
}

void gpu_block_put(struct host_block *block, const struct gpu_event *copied)
{
    block->taken = copied != NULL && gpu_event_status(copied, NULL) != HVD_OK;
}

int gpu_host_block(struct gpu *gpu, int block, int64_t bytes, char **memoryp, struct hvd_error *err)
{
    struct host_block *own = &gpu->blocks[block];
    int mode = 0;
    *memoryp = own->memory;
    if (bytes <= own->bytes)
        return HVD_OK;
    gpu_settle(gpu);
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    rc = host_block_grow(own, &gpu->device, &gpu->host_memory, bytes, err);
    cuda_device_leave(&gpu->device, mode);
    *memoryp = own->memory;
    return rc;
}

/* ---- GPU memory ------------------------------------------------------------------------------- */

void *gpu_fusion_block(struct gpu *gpu, int64_t fusion_bytes, int64_t *bytesp)
{
    if (!gpu->fusion_block_asked) {
        gpu->fusion_block = nccl_memory_create(gpu->nccl, &gpu->device, fusion_bytes);
        gpu->fusion_block_bytes = fusion_bytes;
    }
    gpu->fusion_block_asked = true;
    if (bytesp != NULL)
        *bytesp = gpu->fusion_block_bytes;
    return gpu->fusion_block;
}

int gpu_device_block(struct gpu *gpu, int64_t bytes, int64_t fusion_bytes, void **memoryp,
                     struct hvd_error *err)
{
    const struct cuda_driver *driver = gpu->driver;
    int64_t wanted = bytes > fusion_bytes ? bytes : fusion_bytes;
    int mode = 0;
    *memoryp = (void *)(uintptr_t)gpu->device_block;
    if (bytes <= gpu->device_block_bytes)
        return HVD_OK;
    gpu_settle(gpu);
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    if (gpu->device_block_bytes > 0)
        driver->cuMemFree(gpu->device_block);
    gpu->device_block = 0;
    gpu->device_block_bytes = 0;
    CUresult result = driver->cuMemAlloc(&gpu->device_block, (size_t)wanted);
    cuda_device_leave(&gpu->device, mode);
    if (result != CUDA_SUCCESS)
        return cuda_error(driver, result, err,
                          "no memory of %lld bytes on GPU %d for a fusion buffer; lower --hvd-fusion",
                          (long long)wanted, gpu->device.ordinal);
    gpu->device_block_bytes = wanted;
    *memoryp = (void *)(uintptr_t)gpu->device_block;
    return HVD_OK;
}

/* ---- The end ---------------------------------------------------------------------------------- */

void gpu_free_blocks(struct gpu *gpu)
{
    nccl_memory_destroy(gpu->nccl, gpu->fusion_block);
    if (gpu->device_block_bytes > 0)
        gpu->driver->cuMemFree(gpu->device_block);
    for (int block = 0; block < GPU_BLOCKS; block++)
        host_block_free(&gpu->blocks[block], &gpu->device, &gpu->host_memory);
    host_block_pool_free(&gpu->message_blocks, &gpu->device, &gpu->host_memory);
}
