/* gpu_wait.c: what makes the host wait for the GPU: copies for the commits of states, and buffers that end.
 */
#include "config.h"

#include "cuda/device.h"
#include "cuda/driver_calls.h"
#include "flow/gpu.h"

int gpu_wait_and_copy(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err)
{
    const struct cuda_device *device = gpu_device(gpu);
    const struct cuda_driver *driver = device->driver;
    int mode = 0;
    int rc = cuda_device_enter(device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    CUresult result = driver->cuCtxSynchronize();
    if (result == CUDA_SUCCESS)
        result = driver->cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, (size_t)bytes, gpu_stream(gpu));
    if (result == CUDA_SUCCESS)
        result = driver->cuStreamSynchronize(gpu_stream(gpu));
    cuda_device_leave(device, mode);
    if (result == CUDA_SUCCESS)
        return HVD_OK;
    return cuda_error(driver, result, err, "%lld bytes of a state cannot be copied from or to GPU %d",
                      (long long)bytes, device->ordinal);
}

int gpu_buffer_create(struct gpu *gpu, int64_t bytes, void **memoryp, struct hvd_error *err)
{
    const struct cuda_device *device = gpu_device(gpu);
    CUdeviceptr memory = 0;
    int mode = 0;
    int rc = cuda_device_enter(device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    CUresult result = device->driver->cuMemAlloc(&memory, (size_t)bytes);
    cuda_device_leave(device, mode);
    if (result != CUDA_SUCCESS)
        return cuda_error(device->driver, result, err,
                          "no memory of %lld bytes on GPU %d for the buffer of a persistent operation",
                          (long long)bytes, device->ordinal);
    *memoryp = (void *)(uintptr_t)memory;
    return HVD_OK;
}

void gpu_buffer_destroy(struct gpu *gpu, void *memory)
{
    int mode = 0;
    if (memory == NULL || gpu_enter(gpu, &mode, NULL) != HVD_OK)
        return;
    gpu_device(gpu)->driver->cuMemFree((CUdeviceptr)memory);
    gpu_leave(gpu, mode);
}
