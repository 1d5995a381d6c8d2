/* driver.h: CUDA's driver library, opened at run time, because libhvd runs on nodes without it as well.
 *
 * cuda/ has what needs the driver and no other folder above base: the library itself (this file;
 * driver_calls.h has its functions), devices and their contexts (device.h), which memory a pointer is of
 * (pointer_device.h), and the kernels that pack and unpack tensors (pack.h). Nothing here waits for a device
 * unless its name says so. Only driver_calls.h includes cuda.h; in a build without CUDA driver_none.c takes
 * the place of everything, and cuda_driver_open says so. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stdbool.h>

#include "base/status.h"

/* The library's usual name. */
#define CUDA_DRIVER_LIBRARY "libcuda.so.1"

struct cuda_driver;

/* Is [library] loaded in this process already, as by a program that uses CUDA? NULL: CUDA_DRIVER_LIBRARY.
 * Loads nothing, and starts nothing. */
bool cuda_driver_loaded(const char *library);

/* Load [library] (NULL: CUDA_DRIVER_LIBRARY), find its functions and start it. It stays loaded until the
 * process ends. HVD_ERR_UNSUPPORTED where there is no CUDA: no library, or no device. */
int cuda_driver_open(const char *library, struct cuda_driver **driverp, struct hvd_error *err);
void cuda_driver_close(struct cuda_driver *driver); /* NULL is fine */

#endif
