/* pointer_device.c: ask CUDA which device's memory a pointer is of. */
#include "cuda/pointer_device.h"

#include "cuda/driver_calls.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

int pointer_device(const struct cuda_driver *driver, const void *pointer, int *ordinalp,
                   struct hvd_error *err)
{
    CUmemorytype type = 0;
    unsigned managed = 0;
    int device = -1;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[COUNT(attributes)] = {&type, &managed, &device};
    /* attributes of memory that CUDA does not know are left 0, and that is no error */
    CUresult result =
        driver->cuPointerGetAttributes(COUNT(attributes), attributes, values, (CUdeviceptr)pointer);
    bool has_memory = result != CUDA_ERROR_NOT_INITIALIZED && result != CUDA_ERROR_DEINITIALIZED;
    *ordinalp = -1;
    if (result != CUDA_SUCCESS)
        return has_memory
                   ? cuda_error(driver, result, err, "the driver does not say whose memory is at %p", pointer)
                   : HVD_OK;
    if (managed != 0 || type == CU_MEMORYTYPE_DEVICE)
        *ordinalp = device >= 0 ? device : 0; /* managed memory may belong to none */
    return HVD_OK;
}
