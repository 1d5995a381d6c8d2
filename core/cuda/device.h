/* device.h: a GPU and its primary context, shared with the CUDA runtime and so with the program. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include "cuda/driver.h"

struct CUctx_st;

struct cuda_device {
    const struct cuda_driver *driver;
    int ordinal;              /* the program's number of the device */
    int number;               /* the driver's: CUdevice */
    struct CUctx_st *context; /* CUcontext */
};

/* Keep the primary context of device [ordinal] alive. [driver] must outlive it. */
int cuda_device_open(const struct cuda_driver *driver, int ordinal, struct cuda_device *device,
                     struct hvd_error *err);
void cuda_device_close(struct cuda_device *device); /* one that was not opened, all zeroes, is fine */

/* Between these two calls the device's context is current in the calling thread, and the thread may allocate
 * memory and query events while another thread captures a stream. [mode] passes the thread's capture mode
 * from one call to the other. Calls nest. After a failed enter, leave does nothing. */
int cuda_device_enter(const struct cuda_device *device, int *mode, struct hvd_error *err);
void cuda_device_leave(const struct cuda_device *device, int mode);

#endif
