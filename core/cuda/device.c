/* device.c: a GPU's primary context: kept alive, and made current for a while. */
#include "cuda/device.h"

#include "cuda/driver_calls.h"

#define NOT_ENTERED (-1) /* in place of a capture mode */

int cuda_device_open(const struct cuda_driver *driver, int ordinal, struct cuda_device *device,
                     struct hvd_error *err)
{
    CUdevice number = 0;
    CUcontext context = NULL;
    CUresult result = driver->cuDeviceGet(&number, ordinal);
    if (result == CUDA_SUCCESS)
        result = driver->cuDevicePrimaryCtxRetain(&context, number);
    if (result != CUDA_SUCCESS)
        return cuda_error(driver, result, err, "GPU %d cannot be used", ordinal);
    *device =
        (struct cuda_device){.driver = driver, .ordinal = ordinal, .number = number, .context = context};
    return HVD_OK;
}

void cuda_device_close(struct cuda_device *device)
{
    if (device->context == NULL)
        return;
    device->driver->cuDevicePrimaryCtxRelease(device->number);
    *device = (struct cuda_device){0};
}

int cuda_device_enter(const struct cuda_device *device, int *mode, struct hvd_error *err)
{
    CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result = device->driver->cuCtxPushCurrent(device->context);
    *mode = NOT_ENTERED;
    if (result != CUDA_SUCCESS)
        return cuda_error(device->driver, result, err, "GPU %d cannot be used by this thread",
                          device->ordinal);
    result = device->driver->cuThreadExchangeStreamCaptureMode(&own);
    if (result != CUDA_SUCCESS) {
        CUcontext left = NULL;
        device->driver->cuCtxPopCurrent(&left);
        return cuda_error(device->driver, result, err, "GPU %d cannot be used by this thread",
                          device->ordinal);
    }
    *mode = (int)own;
    return HVD_OK;
}

void cuda_device_leave(const struct cuda_device *device, int mode)
{
    CUstreamCaptureMode own = (CUstreamCaptureMode)mode;
    CUcontext left = NULL;
    if (mode == NOT_ENTERED)
        return;
    device->driver->cuThreadExchangeStreamCaptureMode(&own);
    device->driver->cuCtxPopCurrent(&left);
}
