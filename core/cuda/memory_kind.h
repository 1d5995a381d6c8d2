/* memory_kind.h: which memory a pointer is of: the host's, a device's, or managed by CUDA. */
#ifndef CUDA_MEMORY_KIND_H
#define CUDA_MEMORY_KIND_H

#include <stdint.h>

#include "cuda/driver.h"

enum memory_kind {
    MEMORY_HOST,    /* pageable, or pinned by CUDA */
    MEMORY_DEVICE,  /* only the device reads it at full speed; the host must not touch it */
    MEMORY_MANAGED, /* cuMemAllocManaged: both may touch it, and CUDA moves its pages */
};

struct memory_place {
    enum memory_kind kind;
    int device;    /* the ordinal of the device it belongs to; -1: none */
    bool pinned;   /* host memory that devices can reach */
    uint64_t base; /* where the allocation that contains it begins, and its bytes; 0: unknown */
    uint64_t bytes;
};

/* Where the memory at [pointer] is; never fails: what CUDA does not know is pageable host memory. */
struct memory_place memory_place_of(const struct cuda_driver *driver, const void *pointer);

/* "host", "device", "managed". */
const char *memory_kind_name(enum memory_kind kind);

#endif
