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
    CUstream stream;
    struct operation *first, **tail;
    ncclResult_t failed; /* the first call in it that did */
} group;

/* ---- Groups ------------------------------------------------------------------------------------------ */

ncclResult_t ncclGroupStart(void)
{
    ncclResult_t result = double_call("ncclGroupStart");
    group.depth += result == ncclSuccess;
    return result;
}

void double_free_operation(struct operation *operation)
{
    double_release(operation->used[0]);
    double_release(operation->used[1]);
    free(operation->received);
    free(operation);
}

/* A group that fails is dropped as a whole, and its communicator has failed. */
static ncclResult_t drop_group(ncclResult_t result)
{
    if (group.comm != NULL)
        atomic_store(&group.comm->error, (int)result);
    while (group.first != NULL) {
        struct operation *operation = group.first;
        group.first = operation->next;
        double_free_operation(operation);
    }
    group.failed = ncclSuccess;
    group.comm = NULL;
    return result;
}

static ncclResult_t launch_group(void)
{
    struct work *work = calloc(1, sizeof(*work));
    if (work == NULL)
        double_complain("this machine has no memory for work");
    *work = (struct work){.comm = group.comm, .operations = group.first};
    group.first = NULL;
    group.comm = NULL;
    work->comm->progresses = true;
    work->comm->launches++;
    for (const struct operation *at = work->operations; at != NULL; at = at->next)
        work->comm->registered_operations += at->registered.input != DOUBLE_UNREGISTERED;
    bool captured = double_own_by_graph(group.stream, double_free_work, work);
    atomic_fetch_add(captured ? &work->comm->in_graphs : &work->comm->in_flight, 1);
    double_launch(group.stream, captured ? double_run_again : double_run, work);
    return ncclInProgress;
}

ncclResult_t ncclGroupEnd(void)
{
    if (group.depth == 0)
        double_complain("ncclGroupEnd: no group was begun");
    group.depth--;
    ncclResult_t result = double_call("ncclGroupEnd");
    if (group.failed == ncclSuccess)
        group.failed = result;
    if (group.depth == 0 && group.failed != ncclSuccess)
        return drop_group(group.failed);
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

/* NCCL reduces float8 from 2.24 on. */
static void check_dtype(const char *name, const struct operation *operation)
{
    int version = 0;
    enum kind kind = operation->kind;
    bool reduces = kind == ALLREDUCE || kind == REDUCE || kind == REDUCESCATTER;
    bool float8 = operation->dtype == ncclFloat8e4m3 || operation->dtype == ncclFloat8e5m2;
    ncclGetVersion(&version);
    if (reduces && float8 && version < 22400)
        double_complain("%s: NCCL %d does not reduce float8", name, version);
}

struct range {
    const char *begin;
    int64_t bytes;
};

static struct range input_of(const struct operation *operation, ncclComm_t comm)
{
    enum kind kind = operation->kind;
    int64_t bytes = operation->count * double_dtype_bytes(operation->dtype);
    if (kind == RECV || (kind == BROADCAST && operation->root != comm->rank))
        return (struct range){NULL, 0};
    return (struct range){operation->input, kind == REDUCESCATTER ? bytes * comm->size : bytes};
}

static struct range output_of(const struct operation *operation, ncclComm_t comm)
{
    enum kind kind = operation->kind;
    int64_t bytes = operation->count * double_dtype_bytes(operation->dtype);
    if (kind == SEND || (kind == REDUCE && operation->root != comm->rank))
        return (struct range){NULL, 0};
    return (struct range){operation->output, kind == ALLGATHER ? bytes * comm->size : bytes};
}

static bool overlap(struct range a, struct range b)
{
    return a.bytes > 0 && b.bytes > 0 && a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

static bool is_in_place(const struct operation *operation, ncclComm_t comm)
{
    int64_t own = operation->count * double_dtype_bytes(operation->dtype) * comm->rank;
    const char *input = operation->input;
    const char *output = operation->output;
    if (operation->kind == REDUCESCATTER)
        return output == input + own;
    return operation->kind == ALLGATHER ? input == output + own : input == output;
}

/* NCCL carries an operation out in pieces, and those of a group in any order: what one writes none reads, but
 * where it is in place. */
static void check_overlap(const char *name, const struct operation *given, ncclComm_t comm)
{
    struct range input = input_of(given, comm);
    struct range output = output_of(given, comm);
    if (overlap(input, output) && !is_in_place(given, comm))
        double_complain("%s: input and output overlap, and are not in place", name);
    for (const struct operation *other = group.first; other != NULL; other = other->next)
        if (overlap(output_of(other, comm), input) || overlap(output_of(other, comm), output) ||
            overlap(input_of(other, comm), output))
            double_complain("%s: the group has another operation on this memory", name);
}

/* Complain about memory that [operation] must not use. Returns what is said of registered memory: all of it
 * is, or none. */
static struct offsets check_operation(const char *name, const struct operation *operation, ncclComm_t comm)
{
    struct range input = input_of(operation, comm);
    struct range output = output_of(operation, comm);
    bool reads = input.begin != NULL;
    bool writes = output.begin != NULL;
    int64_t read_at = 0;
    int64_t written_at = 0;
    if (reads) {
        double_check_memory(name, input.begin, input.bytes, comm->device);
        read_at = double_registered_at(comm, input.begin, input.bytes);
    }
    if (writes) {
        double_check_memory(name, output.begin, output.bytes, comm->device);
        written_at = double_registered_at(comm, output.begin, output.bytes);
    }
    if (reads && writes && (read_at == DOUBLE_UNREGISTERED) != (written_at == DOUBLE_UNREGISTERED))
        double_complain("%s: only one of input and output is in registered memory", name);
    if (read_at == DOUBLE_UNREGISTERED || written_at == DOUBLE_UNREGISTERED)
        return (struct offsets){DOUBLE_UNREGISTERED, DOUBLE_UNREGISTERED};
    return operation->kind == ALLREDUCE ? (struct offsets){read_at, written_at} : (struct offsets){0, 0};
}

static ncclResult_t fail(ncclComm_t comm, ncclResult_t result)
{
    if (group.depth == 0)
        return result;
    group.failed = group.failed == ncclSuccess ? result : group.failed;
    group.comm = comm;
    return result;
}

static ncclResult_t add(const char *name, struct operation given, ncclComm_t comm, CUstream stream)
{
    double_check_comm(comm, name);
    check_dtype(name, &given);
    check_overlap(name, &given, comm);
    given.registered = check_operation(name, &given, comm);
    ncclResult_t result = double_call(name);
    if (result == ncclSuccess)
        result = (ncclResult_t)atomic_load(&comm->error);
    if (result != ncclSuccess)
        return fail(comm, result);
    if (!double_is_ready(comm) || comm->progresses || comm->splitting)
        double_complain("%s: the communicator is still at work", name);
    if (group.first != NULL && (group.comm != comm || group.stream != stream))
        double_complain("%s: a group with several communicators or streams", name);
    struct operation *operation = calloc(1, sizeof(*operation));
    if (operation == NULL)
        double_complain("this machine has no memory for an operation");
    *operation = given;
    operation->used[0] = double_use(comm, given.input);
    operation->used[1] = double_use(comm, given.output);
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
    ncclResult_t result = double_call("ncclRedOpCreatePreMulSum");
    int number = 0;
    if (result != ncclSuccess)
        return result;
    while (number < FACTORS_MAX && factor_used[number])
        number++;
    if (number == FACTORS_MAX || residence != ncclScalarHostImmediate)
        double_complain("ncclRedOpCreatePreMulSum: %d operations are not destroyed", number);
    factors[number] = double_value(dtype, scalar);
    factor_used[number] = true;
    *op = (ncclRedOp_t)(ncclNumOps + number);
    return ncclSuccess;
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
                           ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
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
                        int root, ncclComm_t comm, CUstream stream)
{
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
                               ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
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
                           ncclComm_t comm, CUstream stream)
{
    return add(
        "ncclAllGather",
        (struct operation){
            .kind = ALLGATHER, .input = input, .output = output, .count = (int64_t)count, .dtype = dtype},
        comm, stream);
}

ncclResult_t ncclBroadcast(const void *input, void *output, size_t count, ncclDataType_t dtype, int root,
                           ncclComm_t comm, CUstream stream)
{
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
                      CUstream stream)
{
    return add("ncclSend",
               (struct operation){
                   .kind = SEND, .input = input, .count = (int64_t)count, .dtype = dtype, .root = peer},
               comm, stream);
}

ncclResult_t ncclRecv(void *output, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      CUstream stream)
{
    return add("ncclRecv",
               (struct operation){
                   .kind = RECV, .output = output, .count = (int64_t)count, .dtype = dtype, .root = peer},
               comm, stream);
}
