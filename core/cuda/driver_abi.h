/* driver_abi.h: the binary interface of CUDA's driver library, as far as hvd and its tests use it, as lists.
 *
 * hvd is built without CUDA's cuda.h by them. Where configure finds that header, tests/unit/cuda/test_abi.c
 * compares each line with it. */
#ifndef CUDA_DRIVER_ABI_H
#define CUDA_DRIVER_ABI_H

#include <stddef.h>

/* TYPE(name, which type it is). The structures are only known to the driver. */
#define CUDA_TYPES(TYPE)                       \
    TYPE(CUdevice, int)                        \
    TYPE(CUdeviceptr, unsigned long long)      \
    TYPE(CUcontext, struct CUctx_st *)         \
    TYPE(CUmodule, struct CUmod_st *)          \
    TYPE(CUfunction, struct CUfunc_st *)       \
    TYPE(CUstream, struct CUstream_st *)       \
    TYPE(CUevent, struct CUevent_st *)         \
    TYPE(CUgraph, struct CUgraph_st *)         \
    TYPE(CUgraphExec, struct CUgraphExec_st *) \
    TYPE(CUhostFn, void (*)(void *))

/* ---- CONSTANT(name, value), for each enumeration ---- */

#define CUDA_RESULTS(CONSTANT)                               \
    CONSTANT(CUDA_SUCCESS, 0)                                \
    CONSTANT(CUDA_ERROR_INVALID_VALUE, 1)                    \
    CONSTANT(CUDA_ERROR_OUT_OF_MEMORY, 2)                    \
    CONSTANT(CUDA_ERROR_NOT_INITIALIZED, 3)                  \
    CONSTANT(CUDA_ERROR_DEINITIALIZED, 4)                    \
    CONSTANT(CUDA_ERROR_STUB_LIBRARY, 34)                    \
    CONSTANT(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)              \
    CONSTANT(CUDA_ERROR_NO_DEVICE, 100)                      \
    CONSTANT(CUDA_ERROR_INVALID_DEVICE, 101)                 \
    CONSTANT(CUDA_ERROR_INVALID_IMAGE, 200)                  \
    CONSTANT(CUDA_ERROR_INVALID_CONTEXT, 201)                \
    CONSTANT(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)              \
    CONSTANT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)        \
    CONSTANT(CUDA_ERROR_INVALID_HANDLE, 400)                 \
    CONSTANT(CUDA_ERROR_NOT_FOUND, 500)                      \
    CONSTANT(CUDA_ERROR_NOT_READY, 600)                      \
    CONSTANT(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                \
    CONSTANT(CUDA_ERROR_LAUNCH_FAILED, 719)                  \
    CONSTANT(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)         \
    CONSTANT(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804) \
    CONSTANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)     \
    CONSTANT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)     \
    CONSTANT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)        \
    CONSTANT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)        \
    CONSTANT(CUDA_ERROR_CAPTURED_EVENT, 907)

#define CUDA_DEVICE_ATTRIBUTES(CONSTANT)                       \
    CONSTANT(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)     \
    CONSTANT(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)       \
    CONSTANT(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
    CONSTANT(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83)

#define CUDA_MEMORY_TYPES(CONSTANT) \
    CONSTANT(CU_MEMORYTYPE_HOST, 1) \
    CONSTANT(CU_MEMORYTYPE_DEVICE, 2)

#define CUDA_POINTER_ATTRIBUTES(CONSTANT)               \
    CONSTANT(CU_POINTER_ATTRIBUTE_CONTEXT, 1)           \
    CONSTANT(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)       \
    CONSTANT(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)        \
    CONSTANT(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)    \
    CONSTANT(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11) \
    CONSTANT(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)

#define CUDA_CAPTURE_MODES(CONSTANT)                 \
    CONSTANT(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)       \
    CONSTANT(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1) \
    CONSTANT(CU_STREAM_CAPTURE_MODE_RELAXED, 2)

#define CUDA_CAPTURE_STATES(CONSTANT)            \
    CONSTANT(CU_STREAM_CAPTURE_STATUS_NONE, 0)   \
    CONSTANT(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1) \
    CONSTANT(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)

/* Flags of calls, which are unsigned there. */
#define CUDA_FLAGS(CONSTANT)                 \
    CONSTANT(CU_STREAM_NON_BLOCKING, 1)      \
    CONSTANT(CU_STREAM_WAIT_VALUE_EQ, 1)     \
    CONSTANT(CU_STREAM_WAIT_VALUE_AND, 2)    \
    CONSTANT(CU_EVENT_DEFAULT, 0)            \
    CONSTANT(CU_EVENT_DISABLE_TIMING, 2)     \
    CONSTANT(CU_MEMHOSTALLOC_PORTABLE, 1)    \
    CONSTANT(CU_MEMHOSTREGISTER_PORTABLE, 1) \
    CONSTANT(CU_MEM_ATTACH_GLOBAL, 1)        \
    CONSTANT(CU_MEM_ATTACH_HOST, 2)

/* ---- Functions ---- */

/* REQUIRED(name, version, parameters): the symbol is the name with the version behind it, and returns a
 * CUresult. Versions are those whose parameters have these types in every driver that hvd takes. OPTIONAL
 * functions came after CUDA 11.0 or are missing on some systems. */
/* clang-format off */
#define CUDA_DRIVER_CALLS(REQUIRED, OPTIONAL) \
    REQUIRED(cuInit, , (unsigned)) \
    REQUIRED(cuDriverGetVersion, , (int *)) \
    REQUIRED(cuGetErrorName, , (CUresult, const char **)) \
    REQUIRED(cuGetErrorString, , (CUresult, const char **)) \
    REQUIRED(cuDeviceGetCount, , (int *)) \
    REQUIRED(cuDeviceGet, , (CUdevice *, int)) \
    REQUIRED(cuDeviceGetName, , (char *, int, CUdevice)) \
    REQUIRED(cuDeviceGetAttribute, , (int *, CUdevice_attribute, CUdevice)) \
    REQUIRED(cuDeviceGetPCIBusId, , (char *, int, CUdevice)) \
    REQUIRED(cuDevicePrimaryCtxRetain, , (CUcontext *, CUdevice)) \
    REQUIRED(cuDevicePrimaryCtxRelease, _v2, (CUdevice)) \
    REQUIRED(cuCtxPushCurrent, _v2, (CUcontext)) \
    REQUIRED(cuCtxPopCurrent, _v2, (CUcontext *)) \
    REQUIRED(cuCtxGetCurrent, , (CUcontext *)) \
    REQUIRED(cuCtxGetDevice, , (CUdevice *)) \
    REQUIRED(cuCtxSynchronize, , (void)) \
    REQUIRED(cuPointerGetAttributes, , (unsigned, CUpointer_attribute *, void **, CUdeviceptr)) \
    REQUIRED(cuMemGetInfo, _v2, (size_t *, size_t *)) \
    REQUIRED(cuMemAlloc, _v2, (CUdeviceptr *, size_t)) \
    REQUIRED(cuMemFree, _v2, (CUdeviceptr)) \
    REQUIRED(cuMemHostAlloc, , (void **, size_t, unsigned)) \
    REQUIRED(cuMemFreeHost, , (void *)) \
    REQUIRED(cuMemHostRegister, _v2, (void *, size_t, unsigned)) \
    REQUIRED(cuMemHostUnregister, , (void *)) \
    REQUIRED(cuMemAllocManaged, , (CUdeviceptr *, size_t, unsigned)) \
    REQUIRED(cuMemcpyAsync, , (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
    REQUIRED(cuMemcpyHtoDAsync, _v2, (CUdeviceptr, const void *, size_t, CUstream)) \
    REQUIRED(cuMemcpyDtoHAsync, _v2, (void *, CUdeviceptr, size_t, CUstream)) \
    REQUIRED(cuMemcpyDtoDAsync, _v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
    REQUIRED(cuMemsetD8Async, , (CUdeviceptr, unsigned char, size_t, CUstream)) \
    REQUIRED(cuStreamCreateWithPriority, , (CUstream *, unsigned, int)) \
    REQUIRED(cuStreamDestroy, _v2, (CUstream)) \
    REQUIRED(cuStreamSynchronize, , (CUstream)) \
    REQUIRED(cuStreamQuery, , (CUstream)) \
    REQUIRED(cuStreamGetCtx, , (CUstream, CUcontext *)) \
    REQUIRED(cuStreamWaitEvent, , (CUstream, CUevent, unsigned)) \
    REQUIRED(cuStreamIsCapturing, , (CUstream, CUstreamCaptureStatus *)) \
    REQUIRED(cuStreamBeginCapture, _v2, (CUstream, CUstreamCaptureMode)) \
    REQUIRED(cuStreamEndCapture, , (CUstream, CUgraph *)) \
    REQUIRED(cuThreadExchangeStreamCaptureMode, , (CUstreamCaptureMode *)) \
    REQUIRED(cuEventCreate, , (CUevent *, unsigned)) \
    REQUIRED(cuEventDestroy, _v2, (CUevent)) \
    REQUIRED(cuEventRecord, , (CUevent, CUstream)) \
    REQUIRED(cuEventQuery, , (CUevent)) \
    REQUIRED(cuEventSynchronize, , (CUevent)) \
    REQUIRED(cuEventElapsedTime, , (float *, CUevent, CUevent)) \
    REQUIRED(cuModuleLoadData, , (CUmodule *, const void *)) \
    REQUIRED(cuModuleUnload, , (CUmodule)) \
    REQUIRED(cuModuleGetFunction, , (CUfunction *, CUmodule, const char *)) \
    REQUIRED(cuLaunchKernel, , (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                                CUstream, void **, void **)) \
    REQUIRED(cuLaunchHostFunc, , (CUstream, CUhostFn, void *)) \
    REQUIRED(cuOccupancyMaxActiveBlocksPerMultiprocessor, , (int *, CUfunction, int, size_t)) \
    REQUIRED(cuGraphLaunch, , (CUgraphExec, CUstream)) \
    REQUIRED(cuGraphDestroy, , (CUgraph)) \
    REQUIRED(cuGraphExecDestroy, , (CUgraphExec)) \
    OPTIONAL(cuGraphInstantiateWithFlags, , (CUgraphExec *, CUgraph, unsigned long long)) /* CUDA 11.4 */ \
    OPTIONAL(cuStreamWaitValue32, _v2, (CUstream, CUdeviceptr, unsigned, unsigned))       /* CUDA 11.7 */ \
    OPTIONAL(cuStreamWriteValue32, _v2, (CUstream, CUdeviceptr, unsigned, unsigned))
/* clang-format on */

#endif
