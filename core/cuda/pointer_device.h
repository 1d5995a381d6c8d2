/* pointer_device.h: the device that owns the memory at a pointer. */
#ifndef CUDA_POINTER_DEVICE_H
#define CUDA_POINTER_DEVICE_H

#include "cuda/driver.h"

/* Set [*ordinalp] to the device whose memory, or memory managed by CUDA, is at [pointer]; -1 for host
 * memory, pinned or not. Memory that CUDA does not know is host memory, and so is all memory in a process in
 * which CUDA has not started or has ended. Fails if CUDA does not answer: to treat GPU memory as host memory
 * would crash. */
int pointer_device(const struct cuda_driver *driver, const void *pointer, int *ordinalp,
                   struct hvd_error *err);

#endif
