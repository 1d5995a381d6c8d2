/* operations.c: NCCL's collectives, gathered in groups, which become the work of a stream. */
#include "double.h"

#include <stdlib.h>
#include <string.h>

#define FACTORS_MAX 256

/* The sums with factors that were made; numbers begin behind those of NCCL. */
static double factors[FACTORS_MAX];
static bool factor_used[FACTORS_MAX];

/* The open group of this thread. */
static _Thread_local struct {
    int depth;
    ncclComm_t comm;
    cudaStream_t stream;
    struct operation *first, **tail;
} group;

/* ---- Groups ------------------------------------------------------------------------------------------ */

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return double_call("ncclGroupStart");
}

static ncclResult_t launch_group(void)
{
    struct work *work = calloc(1, sizeof(*work));
    if (work == NULL)
        double_complain("this machine has no memory for work");
    *work = (struct work){.comm = group.comm, .operations = group.first};
    group.first = NULL;
    atomic_fetch_add(&work->comm->in_flight, 1);
    work->comm->progresses = true;
    double_launch(group.stream, double_run, work);
    return ncclInProgress;
}

ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupEnd(void)
{
    if (group.depth == 0)
        double_complain("ncclGroupEnd: no group was begun");
    group.depth--;
    if (double_call("ncclGroupEnd") != ncclSuccess)
        return ncclUnhandledCudaError;
    return group.depth == 0 && group.first != NULL ? launch_group() : ncclSuccess;
}

static uint64_t mix(uint64_t tag, uint64_t value)
{
    return (tag ^ value) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* The order of sends and receives differs from rank to rank. */
static uint64_t tag_of(ncclComm_t comm, const struct operation *operation)
{
    bool paired = operation->kind == SEND || operation->kind == RECV;
    uint64_t tag = mix(paired ? SEND : operation->kind, (uint64_t)operation->count);
    tag = mix(tag, operation->dtype);
    if (paired)
        return tag;
    tag = mix(tag, operation->op < ncclNumOps ? operation->op : ncclNumOps);
    return mix(mix(tag, (uint64_t)operation->root), comm->issued++);
}

static ncclResult_t add(const char *name, struct operation given, ncclComm_t comm, cudaStream_t stream)
{
    double_check_comm(comm, name);
    ncclResult_t result = double_call(name);
    if (result != ncclSuccess)
        return result;
    if (atomic_load(&comm->error) != ncclSuccess)
        return (ncclResult_t)atomic_load(&comm->error);
    if (!double_is_ready(comm) || comm->progresses)
        double_complain("%s: the communicator is still at work", name);
    if (group.first != NULL && (group.comm != comm || group.stream != stream))
        double_complain("%s: a group with several communicators or streams", name);
    struct operation *operation = calloc(1, sizeof(*operation));
    if (operation == NULL)
        double_complain("this machine has no memory for an operation");
    *operation = given;
    operation->factor = given.op >= ncclNumOps ? factors[given.op - ncclNumOps] : 1;
    operation->tag = tag_of(comm, operation);
    if (group.first == NULL)
        group.tail = &group.first;
    *group.tail = operation;
    group.tail = &operation->next;
    group.comm = comm;
    group.stream = stream;
    return group.depth > 0 ? ncclInProgress : launch_group();
}

/* ---- Factors ----------------------------------------------------------------------------------------- */

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t dtype,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    double_check_comm(comm, "ncclRedOpCreatePreMulSum");
    int number = 0;
    while (number < FACTORS_MAX && factor_used[number])
        number++;
    if (number == FACTORS_MAX || residence != ncclScalarHostImmediate)
        double_complain("ncclRedOpCreatePreMulSum: %d operations are not destroyed", number);
    factors[number] = double_value(dtype, scalar);
    factor_used[number] = true;
    *op = (ncclRedOp_t)(ncclNumOps + number);
    return double_call("ncclRedOpCreatePreMulSum");
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    double_check_comm(comm, "ncclRedOpDestroy");
    if (op < ncclNumOps || !factor_used[op - ncclNumOps])
        double_complain("ncclRedOpDestroy: %d was not made", (int)op);
    factor_used[op - ncclNumOps] = false;
    return ncclSuccess;
}

/* ---- Collectives ------------------------------------------------------------------------------------- */

ncclResult_t ncclAllReduce(const void *input, void *output, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    double_check_memory("ncclAllReduce", input);
    double_check_memory("ncclAllReduce", output);
    return add("ncclAllReduce",
               (struct operation){.kind = ALLREDUCE,
                                  .input = input,
                                  .output = output,
                                  .count = (int64_t)count,
                                  .dtype = dtype,
                                  .op = op},
               comm, stream);
}

ncclResult_t ncclReduce(const void *input, void *output, size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream)
{
    double_check_memory("ncclReduce", input);
    if (root == comm->rank)
        double_check_memory("ncclReduce", output);
    return add("ncclReduce",
               (struct operation){.kind = REDUCE,
                                  .input = input,
                                  .output = output,
                                  .count = (int64_t)count,
                                  .dtype = dtype,
                                  .op = op,
                                  .root = root},
               comm, stream);
}

ncclResult_t ncclReduceScatter(const void *input, void *output, size_t count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    double_check_memory("ncclReduceScatter", input);
    double_check_memory("ncclReduceScatter", output);
    return add("ncclReduceScatter",
               (struct operation){.kind = REDUCESCATTER,
                                  .input = input,
                                  .output = output,
                                  .count = (int64_t)count,
                                  .dtype = dtype,
                                  .op = op},
               comm, stream);
}

ncclResult_t ncclAllGather(const void *input, void *output, size_t count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream)
{
    double_check_memory("ncclAllGather", input);
    double_check_memory("ncclAllGather", output);
    return add(
        "ncclAllGather",
        (struct operation){
            .kind = ALLGATHER, .input = input, .output = output, .count = (int64_t)count, .dtype = dtype},
        comm, stream);
}

ncclResult_t ncclBroadcast(const void *input, void *output, size_t count, ncclDataType_t dtype, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    if (root == comm->rank)
        double_check_memory("ncclBroadcast", input);
    double_check_memory("ncclBroadcast", output);
    return add("ncclBroadcast",
               (struct operation){.kind = BROADCAST,
                                  .input = input,
                                  .output = output,
                                  .count = (int64_t)count,
                                  .dtype = dtype,
                                  .root = root},
               comm, stream);
}

ncclResult_t ncclSend(const void *input, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    double_check_memory("ncclSend", input);
    return add("ncclSend",
               (struct operation){
                   .kind = SEND, .input = input, .count = (int64_t)count, .dtype = dtype, .root = peer},
               comm, stream);
}

ncclResult_t ncclRecv(void *output, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    double_check_memory("ncclRecv", output);
    return add("ncclRecv",
               (struct operation){
                   .kind = RECV, .output = output, .count = (int64_t)count, .dtype = dtype, .root = peer},
               comm, stream);
}
