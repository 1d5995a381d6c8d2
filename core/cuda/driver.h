/* driver.h: CUDA's driver library, opened at run time, because libhvd also runs on nodes without it.
 *
 * cuda/ contains the code that needs the driver, and depends only on base: the library itself (this file;
 * driver_calls.h lists its functions), devices and their contexts (device.h), the device of a pointer
 * (pointer_device.h), and the kernels that pack and unpack tensors (pack.h). No function here waits for a
 * device unless its name says so. hvd does not need CUDA's cuda.h: driver_abi.h declares the part of it that
 * hvd uses. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stdbool.h>

#include "base/status.h"

/* The library's usual name. */
#define CUDA_DRIVER_LIBRARY "libcuda.so.1"

struct cuda_driver;

/* Returns whether [library] (NULL: CUDA_DRIVER_LIBRARY) is already loaded in this process, as in a program
 * that uses CUDA. Loads and starts nothing. */
bool cuda_driver_loaded(const char *library);

/* Load [library] (NULL: CUDA_DRIVER_LIBRARY), find its functions and start it. It stays loaded until the
 * process ends. HVD_ERR_UNSUPPORTED if there is no library or no device, or if hvd was configured
 * --with-cuda=no. */
int cuda_driver_open(const char *library, struct cuda_driver **driverp, struct hvd_error *err);
void cuda_driver_close(struct cuda_driver *driver); /* NULL is fine */

#endif
