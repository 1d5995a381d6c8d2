/* gpu_wait.c: copies for which the host waits: the commits of states. */
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
