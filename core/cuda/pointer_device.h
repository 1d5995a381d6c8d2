/* pointer_device.h: which device's memory a pointer is of. */
#ifndef CUDA_POINTER_DEVICE_H
#define CUDA_POINTER_DEVICE_H

#include "cuda/driver.h"

/* The ordinal of the device whose memory, or memory managed by CUDA, is at [pointer]; -1 for the host's,
 * pinned or not. Never fails: what CUDA does not know is the host's. */
int pointer_device(const struct cuda_driver *driver, const void *pointer);

#endif
