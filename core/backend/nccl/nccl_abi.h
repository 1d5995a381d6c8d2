/* nccl_abi.h: the binary interface of NCCL's library, as far as hvd and its tests use it, as lists.
 *
 * hvd is built without NCCL's nccl.h by them. Where configure finds that header, tests/unit/cuda/test_abi.c
 * compares each line with it. RCCL has the same. */
#ifndef BACKEND_NCCL_NCCL_ABI_H
#define BACKEND_NCCL_NCCL_ABI_H

#include <limits.h>
#include <stddef.h>

/* FIELD(type, name, initial value) of a configuration, as NCCL 2.18 has it: the library takes from it only
 * what its size and version say is there. INT_MIN and NULL leave a choice to the library. */
#define NCCL_CONFIG_FIELDS(FIELD)       \
    FIELD(size_t, size, 48)             \
    FIELD(unsigned, magic, 0xcafebeefu) \
    FIELD(unsigned, version, 21800)     \
    FIELD(int, blocking, INT_MIN)       \
    FIELD(int, cgaClusterSize, INT_MIN) \
    FIELD(int, minCTAs, INT_MIN)        \
    FIELD(int, maxCTAs, INT_MIN)        \
    FIELD(const char *, netName, NULL)  \
    FIELD(int, splitShare, INT_MIN)

/* ---- CONSTANT(name, value), for each enumeration ---- */

#define NCCL_NUMBERS(CONSTANT)          \
    CONSTANT(NCCL_UNIQUE_ID_BYTES, 128) \
    CONSTANT(NCCL_SPLIT_NOCOLOR, -1)

#define NCCL_RESULTS(CONSTANT)          \
    CONSTANT(ncclSuccess, 0)            \
    CONSTANT(ncclUnhandledCudaError, 1) \
    CONSTANT(ncclSystemError, 2)        \
    CONSTANT(ncclInternalError, 3)      \
    CONSTANT(ncclInvalidArgument, 4)    \
    CONSTANT(ncclInvalidUsage, 5)       \
    CONSTANT(ncclRemoteError, 6)        \
    CONSTANT(ncclInProgress, 7)

/* Those of 8 bits came with NCCL 2.24. */
#define NCCL_DTYPES(CONSTANT)    \
    CONSTANT(ncclInt8, 0)        \
    CONSTANT(ncclUint8, 1)       \
    CONSTANT(ncclInt32, 2)       \
    CONSTANT(ncclUint32, 3)      \
    CONSTANT(ncclInt64, 4)       \
    CONSTANT(ncclUint64, 5)      \
    CONSTANT(ncclFloat16, 6)     \
    CONSTANT(ncclFloat32, 7)     \
    CONSTANT(ncclFloat64, 8)     \
    CONSTANT(ncclBfloat16, 9)    \
    CONSTANT(ncclFloat8e4m3, 10) \
    CONSTANT(ncclFloat8e5m2, 11)

/* ncclNumOps and greater numbers are operations that a program has made. */
#define NCCL_OPS(CONSTANT)  \
    CONSTANT(ncclSum, 0)    \
    CONSTANT(ncclProd, 1)   \
    CONSTANT(ncclMax, 2)    \
    CONSTANT(ncclMin, 3)    \
    CONSTANT(ncclAvg, 4)    \
    CONSTANT(ncclNumOps, 5) \
    CONSTANT(ncclMaxRedOp, 0x7fffffff)

#define NCCL_SCALAR_PLACES(CONSTANT) \
    CONSTANT(ncclScalarDevice, 0)    \
    CONSTANT(ncclScalarHostImmediate, 1)

/* ---- Functions ---- */

/* REQUIRED(what it returns, name, parameters). OPTIONAL functions came after NCCL 2.18. */
/* clang-format off */
#define NCCL_CALLS(REQUIRED, OPTIONAL) \
    REQUIRED(ncclResult_t, ncclGetVersion, (int *)) \
    REQUIRED(ncclResult_t, ncclGetUniqueId, (ncclUniqueId *)) \
    REQUIRED(const char *, ncclGetErrorString, (ncclResult_t)) \
    REQUIRED(const char *, ncclGetLastError, (ncclComm_t)) \
    REQUIRED(ncclResult_t, ncclCommInitRankConfig, (ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *)) \
    REQUIRED(ncclResult_t, ncclCommSplit, (ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *)) \
    REQUIRED(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t, ncclResult_t *)) \
    REQUIRED(ncclResult_t, ncclCommFinalize, (ncclComm_t)) \
    REQUIRED(ncclResult_t, ncclCommDestroy, (ncclComm_t)) \
    REQUIRED(ncclResult_t, ncclCommAbort, (ncclComm_t)) \
    REQUIRED(ncclResult_t, ncclGroupStart, (void)) \
    REQUIRED(ncclResult_t, ncclGroupEnd, (void)) \
    REQUIRED(ncclResult_t, ncclAllReduce, \
             (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, struct CUstream_st *)) \
    REQUIRED(ncclResult_t, ncclReduce, \
             (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, struct CUstream_st *)) \
    REQUIRED(ncclResult_t, ncclReduceScatter, \
             (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, struct CUstream_st *)) \
    REQUIRED(ncclResult_t, ncclAllGather, \
             (const void *, void *, size_t, ncclDataType_t, ncclComm_t, struct CUstream_st *)) \
    REQUIRED(ncclResult_t, ncclBroadcast, \
             (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, struct CUstream_st *)) \
    REQUIRED(ncclResult_t, ncclSend, \
             (const void *, size_t, ncclDataType_t, int, ncclComm_t, struct CUstream_st *)) \
    REQUIRED(ncclResult_t, ncclRecv, (void *, size_t, ncclDataType_t, int, ncclComm_t, struct CUstream_st *)) \
    REQUIRED(ncclResult_t, ncclRedOpCreatePreMulSum, \
             (ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t)) \
    REQUIRED(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t, ncclComm_t)) \
    OPTIONAL(ncclResult_t, ncclMemAlloc, (void **, size_t)) /* 2.19 */ \
    OPTIONAL(ncclResult_t, ncclMemFree, (void *)) \
    OPTIONAL(ncclResult_t, ncclCommRegister, (ncclComm_t, void *, size_t, void **)) \
    OPTIONAL(ncclResult_t, ncclCommDeregister, (ncclComm_t, void *))
/* clang-format on */

#endif
