/* nccl_calls.h: the functions of NCCL's library, with the types of its nccl.h. RCCL has the same. */
#ifndef BACKEND_NCCL_NCCL_CALLS_H
#define BACKEND_NCCL_NCCL_CALLS_H

#include <nccl.h>
#include <stdatomic.h>

#include "backend/nccl/nccl.h"

/* Types of NCCL 2.24, of which an older header does not know. */
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 24, 0)
#define ncclFloat8e4m3 ((ncclDataType_t)10)
#define ncclFloat8e5m2 ((ncclDataType_t)11)
#endif

/* OPTIONAL functions came after NCCL 2.18: NULL where the library has none. */
#define NCCL_CALLS(REQUIRED, OPTIONAL) \
    REQUIRED(ncclGetVersion)           \
    REQUIRED(ncclGetUniqueId)          \
    REQUIRED(ncclGetErrorString)       \
    REQUIRED(ncclGetLastError)         \
    REQUIRED(ncclCommInitRankConfig)   \
    REQUIRED(ncclCommSplit)            \
    REQUIRED(ncclCommGetAsyncError)    \
    REQUIRED(ncclCommFinalize)         \
    REQUIRED(ncclCommDestroy)          \
    REQUIRED(ncclCommAbort)            \
    REQUIRED(ncclGroupStart)           \
    REQUIRED(ncclGroupEnd)             \
    REQUIRED(ncclAllReduce)            \
    REQUIRED(ncclReduce)               \
    REQUIRED(ncclReduceScatter)        \
    REQUIRED(ncclAllGather)            \
    REQUIRED(ncclBroadcast)            \
    REQUIRED(ncclSend)                 \
    REQUIRED(ncclRecv)                 \
    REQUIRED(ncclRedOpCreatePreMulSum) \
    REQUIRED(ncclRedOpDestroy)         \
    OPTIONAL(ncclMemAlloc) /* 2.19 */  \
    OPTIONAL(ncclMemFree)              \
    OPTIONAL(ncclCommRegister)         \
    OPTIONAL(ncclCommDeregister)

#define NCCL_FIELD(name) __typeof__(name) *name;
struct nccl {
    _Atomic int holders;
    void *library;
    const struct hvd_log *log;
    int version;
    _Atomic int ending; /* communicators that threads end, and that graphs may hold */
    NCCL_CALLS(NCCL_FIELD, NCCL_FIELD)
};
#undef NCCL_FIELD

/* Write a sentence into [err] (unless NULL): what the caller says it could not do, then NCCL's text for
 * [result] and its own last sentence. [comm] may be NULL. Returns HVD_ERR_SYSTEM. */
int nccl_error(const struct nccl *nccl, ncclComm_t comm, ncclResult_t result, struct hvd_error *err,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Where collectives go. */
struct nccl_target {
    const struct nccl *nccl;
    ncclComm_t comm;
    const struct team *members;
    struct CUstream_st *stream;
};

/* Put the collectives of [count] batches into the target's stream, as one group. ncclInProgress is no
 * failure. */
ncclResult_t nccl_put(const struct nccl_target *target, const struct backend_batch *batches, int count);

#endif
