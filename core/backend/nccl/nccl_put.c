/* nccl_put.c: the collective of a batch, in NCCL's calls. */
#include "config.h"

#include <stdlib.h>

#include "backend/nccl/nccl_calls.h"
#include "base/dtype.h"
#include "base/narrow.h"

/* What all calls for one batch have in common. */
struct put {
    const struct nccl *nccl;
    ncclComm_t comm;
    const struct team *members;
    struct CUstream_st *stream;
    const struct backend_batch *batch;
    ncclDataType_t dtype;
    int64_t unit; /* NCCL's elements in one of the batch */
    ncclRedOp_t op;
    bool owns_op;
};

/* Only reductions need to know what the elements are. */
static ncclDataType_t dtype_of(enum hvd_dtype dtype)
{
    switch (dtype) {
    case HVD_UINT8:
        return ncclUint8;
    case HVD_INT32:
        return ncclInt32;
    case HVD_INT64:
        return ncclInt64;
    case HVD_FLOAT16:
        return ncclFloat16;
    case HVD_BFLOAT16:
        return ncclBfloat16;
    case HVD_FLOAT32:
        return ncclFloat32;
    case HVD_FLOAT64:
        return ncclFloat64;
    case HVD_FLOAT8_E4M3:
        return ncclFloat8e4m3;
    case HVD_FLOAT8_E5M2:
        return ncclFloat8e5m2;
    default:
        return ncclInt8;
    }
}

static ncclRedOp_t op_of(enum hvd_op op)
{
    switch (op) {
    case HVD_MIN:
        return ncclMin;
    case HVD_MAX:
        return ncclMax;
    case HVD_PRODUCT:
        return ncclProd;
    default:
        return ncclSum;
    }
}

static size_t units(const struct put *put, int64_t elements)
{
    return (size_t)(elements * put->unit);
}

static int64_t bytes_of(const struct put *put, int64_t elements)
{
    return elements * (int64_t)dtype_bytes(put->batch->need.dtype);
}

static bool failed(ncclResult_t result)
{
    return result != ncclSuccess && result != ncclInProgress;
}

/* ---- The factor of a sum ---- */

static double factor_of(const struct backend_batch *batch)
{
    double ranks = batch->need.op == HVD_AVERAGE ? batch->need.ranks : 1;
    return batch->prescale * batch->postscale / ranks;
}

/* The operation of a sum with a factor, which is the caller's to destroy. */
static ncclResult_t create_op(struct put *put, double factor)
{
    union {
        double float64;
        float float32;
        uint16_t half;
    } scalar;
    switch (put->batch->need.dtype) {
    case HVD_FLOAT64:
        scalar.float64 = factor;
        break;
    case HVD_FLOAT32:
        scalar.float32 = (float)factor;
        break;
    case HVD_FLOAT16:
        scalar.half = (uint16_t)float16_narrowed(bits_of((float)factor));
        break;
    default:
        scalar.half = (uint16_t)bfloat16_narrowed(bits_of((float)factor));
    }
    return put->nccl->ncclRedOpCreatePreMulSum(&put->op, &scalar, put->dtype, ncclScalarHostImmediate,
                                               put->comm);
}

/* ---- Collectives ---- */

static bool counts_are_equal(const struct put *put)
{
    for (int member = 1; member < put->members->size; member++)
        if (put->batch->counts[member] != put->batch->counts[0])
            return false;
    return true;
}

static ncclResult_t put_reducescatter(const struct put *put)
{
    const struct backend_batch *batch = put->batch;
    const char *input = batch->input;
    int64_t at = 0;
    ncclResult_t result = ncclSuccess;
    if (counts_are_equal(put))
        return put->nccl->ncclReduceScatter(input, batch->output, units(put, batch->counts[0]), put->dtype,
                                            put->op, put->comm, put->stream);
    for (int member = 0; member < put->members->size && !failed(result); member++) {
        if (batch->counts[member] > 0)
            result = put->nccl->ncclReduce(input + at, batch->output, units(put, batch->counts[member]),
                                           put->dtype, put->op, member, put->comm, put->stream);
        at += bytes_of(put, batch->counts[member]);
    }
    return result;
}

static ncclResult_t put_allgather(const struct put *put)
{
    const struct backend_batch *batch = put->batch;
    char *output = batch->output;
    int64_t at = 0;
    ncclResult_t result = ncclSuccess;
    if (counts_are_equal(put))
        return put->nccl->ncclAllGather(batch->input, output, units(put, batch->counts[0]), put->dtype,
                                        put->comm, put->stream);
    for (int member = 0; member < put->members->size && !failed(result); member++) {
        bool own = member == put->members->rank;
        if (batch->counts[member] > 0)
            result = put->nccl->ncclBroadcast(own ? batch->input : output + at, output + at,
                                              units(put, batch->counts[member]), put->dtype, member,
                                              put->comm, put->stream);
        at += bytes_of(put, batch->counts[member]);
    }
    return result;
}

static ncclResult_t put_alltoall(const struct put *put)
{
    const struct backend_batch *batch = put->batch;
    const char *input = batch->input;
    char *output = batch->output;
    int64_t sent = 0, received = 0;
    ncclResult_t result = ncclSuccess;
    for (int member = 0; member < put->members->size && !failed(result); member++) {
        if (batch->counts[member] > 0)
            result = put->nccl->ncclSend(input + sent, units(put, batch->counts[member]), put->dtype, member,
                                         put->comm, put->stream);
        if (batch->receive_counts[member] > 0 && !failed(result))
            result = put->nccl->ncclRecv(output + received, units(put, batch->receive_counts[member]),
                                         put->dtype, member, put->comm, put->stream);
        sent += bytes_of(put, batch->counts[member]);
        received += bytes_of(put, batch->receive_counts[member]);
    }
    return result;
}

static ncclResult_t put_calls(const struct put *put)
{
    const struct backend_batch *batch = put->batch;
    switch (batch->need.kind) {
    case COLL_ALLREDUCE:
        return put->nccl->ncclAllReduce(batch->input, batch->output, units(put, batch->count), put->dtype,
                                        put->op, put->comm, put->stream);
    case COLL_BROADCAST:
        return put->nccl->ncclBroadcast(put->members->rank == batch->root ? batch->input : batch->output,
                                        batch->output, units(put, batch->count), put->dtype, batch->root,
                                        put->comm, put->stream);
    case COLL_REDUCESCATTER:
        return put_reducescatter(put);
    case COLL_ALLGATHER:
        return put_allgather(put);
    case COLL_ALLTOALL:
        return put_alltoall(put);
    }
    return ncclInvalidArgument;
}

static ncclResult_t prepare_put(const struct nccl_target *target, const struct backend_batch *batch,
                                struct put *put)
{
    const struct backend_need *need = &batch->need;
    bool reduces = coll_reduces(need->kind);
    *put = (struct put){.nccl = target->nccl,
                        .comm = target->comm,
                        .members = target->members,
                        .stream = target->stream,
                        .batch = batch,
                        .dtype = reduces ? dtype_of(need->dtype) : ncclInt8,
                        .unit = reduces ? 1 : (int64_t)dtype_bytes(need->dtype),
                        .op = op_of(need->op)};
    if (!reduces || factor_of(batch) == 1)
        return ncclSuccess;
    ncclResult_t result = create_op(put, factor_of(batch));
    put->owns_op = !failed(result);
    return result;
}

/* All calls are one group: NCCL carries them out together, in any order. */
static ncclResult_t put_group(const struct nccl *nccl, const struct put *puts, int count)
{
    ncclResult_t result = nccl->ncclGroupStart();
    if (failed(result))
        return result;
    for (int i = 0; i < count && !failed(result); i++)
        result = put_calls(&puts[i]);
    ncclResult_t end = nccl->ncclGroupEnd();
    return failed(result) ? result : end;
}

ncclResult_t nccl_put(const struct nccl_target *target, const struct backend_batch *batches, int count)
{
    const struct nccl *nccl = target->nccl;
    ncclResult_t result = ncclSuccess;
    struct put *puts = calloc((size_t)count, sizeof(*puts));
    if (puts == NULL)
        return ncclSystemError;
    for (int i = 0; i < count && !failed(result); i++)
        result = prepare_put(target, &batches[i], &puts[i]);
    if (!failed(result))
        result = put_group(nccl, puts, count);
    for (int i = 0; i < count; i++)
        if (puts[i].owns_op)
            nccl->ncclRedOpDestroy(puts[i].op, target->comm);
    free(puts);
    return result;
}
