/* driver_calls.h: the functions of CUDA's driver library, with their types. */
#ifndef CUDA_DRIVER_CALLS_H
#define CUDA_DRIVER_CALLS_H

#include "cuda/driver.h"
#include "cuda/driver_abi.h"

#define CUDA_CONSTANT(name, value) name = (value),
typedef enum { CUDA_RESULTS(CUDA_CONSTANT) } CUresult;
typedef enum { CUDA_DEVICE_ATTRIBUTES(CUDA_CONSTANT) } CUdevice_attribute;
typedef enum { CUDA_MEMORY_TYPES(CUDA_CONSTANT) } CUmemorytype;
typedef enum { CUDA_POINTER_ATTRIBUTES(CUDA_CONSTANT) } CUpointer_attribute;
typedef enum { CUDA_CAPTURE_MODES(CUDA_CONSTANT) } CUstreamCaptureMode;
typedef enum { CUDA_CAPTURE_STATES(CUDA_CONSTANT) } CUstreamCaptureStatus;
enum { CUDA_FLAGS(CUDA_CONSTANT) };
#undef CUDA_CONSTANT

#define CUDA_TYPE(name, type) typedef __typeof__(type) name;
CUDA_TYPES(CUDA_TYPE)
#undef CUDA_TYPE

/* OPTIONAL functions are NULL if the driver lacks them. */
#define CUDA_DRIVER_FIELD(name, version, parameters) CUresult(*name) parameters;
struct cuda_driver {
    void *library;
    int version;
    CUDA_DRIVER_CALLS(CUDA_DRIVER_FIELD, CUDA_DRIVER_FIELD)
};
#undef CUDA_DRIVER_FIELD

/* Write a sentence into [err] (unless NULL): the failed action from [format], then CUDA's name and text for
 * [result], and how to correct it if that is known. Returns HVD_ERR_NO_MEMORY if the device is out of
 * memory, otherwise HVD_ERR_SYSTEM. */
int cuda_error(const struct cuda_driver *driver, CUresult result, struct hvd_error *err, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

#endif
