/* driver_calls.h: the functions of CUDA's driver library, with the types of cuda.h. */
#ifndef CUDA_DRIVER_CALLS_H
#define CUDA_DRIVER_CALLS_H

#include <cuda.h>

#include "cuda/driver.h"

/* A function that cuda.h names by a macro, such as cuMemAlloc for cuMemAlloc_v2, is a field and a symbol of
 * that other name, so that its type is the one which the symbol has in every driver. OPTIONAL functions came
 * after CUDA 11.0 or are missing on some systems: NULL where the driver has none. */
#define CUDA_DRIVER_CALLS(REQUIRED, OPTIONAL)                 \
    REQUIRED(cuInit)                                          \
    REQUIRED(cuDriverGetVersion)                              \
    REQUIRED(cuGetErrorName)                                  \
    REQUIRED(cuGetErrorString)                                \
    REQUIRED(cuDeviceGetCount)                                \
    REQUIRED(cuDeviceGet)                                     \
    REQUIRED(cuDeviceGetName)                                 \
    REQUIRED(cuDeviceGetAttribute)                            \
    REQUIRED(cuDeviceGetPCIBusId)                             \
    REQUIRED(cuDevicePrimaryCtxRetain)                        \
    REQUIRED(cuDevicePrimaryCtxRelease)                       \
    REQUIRED(cuCtxPushCurrent)                                \
    REQUIRED(cuCtxPopCurrent)                                 \
    REQUIRED(cuCtxGetCurrent)                                 \
    REQUIRED(cuCtxSynchronize)                                \
    REQUIRED(cuPointerGetAttributes)                          \
    REQUIRED(cuMemGetInfo)                                    \
    REQUIRED(cuMemAlloc)                                      \
    REQUIRED(cuMemFree)                                       \
    REQUIRED(cuMemHostAlloc)                                  \
    REQUIRED(cuMemFreeHost)                                   \
    REQUIRED(cuMemHostRegister)                               \
    REQUIRED(cuMemHostUnregister)                             \
    REQUIRED(cuMemAllocManaged)                               \
    REQUIRED(cuMemcpyAsync)                                   \
    REQUIRED(cuMemcpyHtoDAsync)                               \
    REQUIRED(cuMemcpyDtoHAsync)                               \
    REQUIRED(cuMemcpyDtoDAsync)                               \
    REQUIRED(cuMemsetD8Async)                                 \
    REQUIRED(cuStreamCreateWithPriority)                      \
    REQUIRED(cuStreamDestroy)                                 \
    REQUIRED(cuStreamSynchronize)                             \
    REQUIRED(cuStreamQuery)                                   \
    REQUIRED(cuStreamGetCtx)                                  \
    REQUIRED(cuStreamWaitEvent)                               \
    REQUIRED(cuStreamIsCapturing)                             \
    REQUIRED(cuStreamBeginCapture)                            \
    REQUIRED(cuStreamEndCapture)                              \
    REQUIRED(cuThreadExchangeStreamCaptureMode)               \
    REQUIRED(cuEventCreate)                                   \
    REQUIRED(cuEventDestroy)                                  \
    REQUIRED(cuEventRecord)                                   \
    REQUIRED(cuEventQuery)                                    \
    REQUIRED(cuEventSynchronize)                              \
    REQUIRED(cuModuleLoadData)                                \
    REQUIRED(cuModuleUnload)                                  \
    REQUIRED(cuModuleGetFunction)                             \
    REQUIRED(cuLaunchKernel)                                  \
    REQUIRED(cuLaunchHostFunc)                                \
    REQUIRED(cuOccupancyMaxActiveBlocksPerMultiprocessor)     \
    REQUIRED(cuGraphLaunch)                                   \
    REQUIRED(cuGraphDestroy)                                  \
    REQUIRED(cuGraphExecDestroy)                              \
    OPTIONAL(cuGraphInstantiateWithFlags) /* CUDA 11.4 */     \
    OPTIONAL(cuEventElapsedTime)          /* v2: CUDA 12.8 */ \
    OPTIONAL(cuStreamWaitValue32)         /* v2: CUDA 11.7 */ \
    OPTIONAL(cuStreamWriteValue32)

#define CUDA_DRIVER_FIELD(name) __typeof__(name) *name;
struct cuda_driver {
    void *library;
    int version;
    CUDA_DRIVER_CALLS(CUDA_DRIVER_FIELD, CUDA_DRIVER_FIELD)
};
#undef CUDA_DRIVER_FIELD

/* Write a sentence into [err] (unless NULL): what the caller says it could not do, then CUDA's name and text
 * for [result], and how to correct it where that is known. Returns HVD_ERR_NO_MEMORY for memory of the
 * device that ran out, otherwise HVD_ERR_SYSTEM. */
int cuda_error(const struct cuda_driver *driver, CUresult result, struct hvd_error *err, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

#endif
