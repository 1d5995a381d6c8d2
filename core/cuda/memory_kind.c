/* memory_kind.c: ask CUDA which memory a pointer is of. */
#include "cuda/memory_kind.h"

#include <stddef.h>

#include "cuda/driver_calls.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct memory_place memory_place_of(const struct cuda_driver *driver, const void *pointer)
{
    struct memory_place place = {.kind = MEMORY_HOST, .device = -1};
    CUmemorytype type = 0;
    unsigned managed = 0;
    int device = -1;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[COUNT(attributes)] = {&type, &managed, &device, &base, &bytes};
    /* attributes of memory that CUDA does not know are left 0, and that is no error */
    CUresult result =
        driver->cuPointerGetAttributes(COUNT(attributes), attributes, values, (CUdeviceptr)pointer);
    if (result != CUDA_SUCCESS || type == 0)
        return place;
    place.base = base;
    place.bytes = bytes;
    place.device = device;
    if (managed != 0)
        place.kind = MEMORY_MANAGED;
    else if (type == CU_MEMORYTYPE_DEVICE)
        place.kind = MEMORY_DEVICE;
    else
        place.pinned = true;
    return place;
}

const char *memory_kind_name(enum memory_kind kind)
{
    static const char *const names[] = {
        [MEMORY_HOST] = "host", [MEMORY_DEVICE] = "device", [MEMORY_MANAGED] = "managed"};
    return (size_t)kind < COUNT(names) ? names[kind] : "unknown";
}
