/* gpu_alloc.c: tests one promise of libhvd about memory of hvd_alloc_on, run by every rank of a job:
 * `gpu_alloc CASE`. Exits 0 if it held. */
#include <stddef.h>
#include <time.h>

#include "gpu_tensor.h"

#define ALL_COUNT (4 * COUNT)
#define BYTES     (ALL_COUNT * (int64_t)sizeof(float))

static float *allocate(void)
{
    void *memory = NULL;
    must(hvd_alloc_on(gpu_memory_ordinal(), BYTES, &memory), "hvd_alloc_on");
    return memory;
}

static struct hvd_tensor tensor_at(const char *name, float *input, float *output)
{
    struct hvd_tensor tensor = on_gpu(name, input, COUNT);
    tensor.output = output;
    return tensor;
}

static void write_all(float *memory, float value)
{
    float data[COUNT];
    for (int i = 0; i < COUNT; i++)
        data[i] = value;
    gpu_memory_copy(memory, data, sizeof(data));
}

static void expect_all(const char *what, const float *memory, int count, float expected)
{
    float data[COUNT];
    gpu_memory_copy(data, memory, (size_t)count * sizeof(float));
    for (int i = 0; i < count; i++)
        if (data[i] != expected)
            ranks_fail("%s: element %d is %g, expected %g", what, i, (double)data[i], (double)expected);
}

/* The ranks from 0 on have 1, 2, ... */
static float sum_of_ranks(void)
{
    return (float)(size * (size + 1) / 2);
}

static void sum(const char *name, float *input, float *output)
{
    struct hvd_tensor tensor = tensor_at(name, input, output);
    write_all(input, (float)(rank + 1));
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), name);
    expect_all(name, output, COUNT, sum_of_ranks());
}

static void share(const char *name, float *memory)
{
    struct hvd_tensor tensor = tensor_at(name, memory, memory + COUNT);
    write_all(memory, (float)(rank + 1));
    must(hvd_reducescatter(&tensor, HVD_SUM, NULL), name);
    expect_all(name, memory + COUNT, (int)hvd_share_rows(COUNT, rank, size), sum_of_ranks());
}

/* The share goes to the begin of the input. */
static void share_in_place(const char *name, float *memory)
{
    struct hvd_tensor tensor = tensor_at(name, memory, memory);
    write_all(memory, (float)(rank + 1));
    must(hvd_reducescatter(&tensor, HVD_SUM, NULL), name);
    expect_all(name, memory, (int)hvd_share_rows(COUNT, rank, size), sum_of_ranks());
}

static void broadcast(const char *name, float *memory)
{
    struct hvd_tensor tensor = tensor_at(name, memory, memory);
    write_all(memory, (float)(rank + 1));
    must(hvd_broadcast(&tensor, 1, NULL), name);
    expect_all(name, memory, COUNT, 2);
}

/* Nine operations in it, and one that NCCL cannot carry in place. */
static void same(void)
{
    float *memory = allocate();
    for (int step = 0; step < 5; step++)
        sum("in place", memory, memory);
    sum("in place", memory + 2 * COUNT, memory + 2 * COUNT);
    sum("from here to there", memory, memory + COUNT);
    broadcast("broadcast", memory + COUNT);
    share("share", memory);
    share_in_place("share in place", memory);
    must(hvd_free(memory), "hvd_free");
}

/* Rank 1 has ordinary memory. */
static void apart(void)
{
    float *memory = rank != 1 ? allocate() : (float *)(void *)gpu_memory_new(BYTES);
    for (int step = 0; step < 5; step++)
        sum("in place", memory, memory);
    broadcast("broadcast", memory + COUNT);
    share("share", memory);
    if (rank != 1)
        must(hvd_free(memory), "hvd_free");
    else
        gpu_memory_free((char *)memory);
}

/* Rank 1 has its tensor at another place, or memory of another size, or one more memory before it. */
static void elsewhere(void)
{
    float *memory = allocate();
    float *own = memory + (rank == 1 ? COUNT : 0);
    void *more = NULL;
    sum("shifted", own, own);
    sum("half shifted", memory, own);
    must(hvd_free(memory), "hvd_free");
    must(hvd_alloc_on(gpu_memory_ordinal(), rank == 1 ? 2 * BYTES : BYTES, &more), "another size");
    sum("larger", more, more);
    must(hvd_free(more), "hvd_free");
    must(hvd_alloc_on(gpu_memory_ordinal(), rank == 1 ? 0 : BYTES, &more), "one more");
    memory = allocate();
    sum("another number", memory, memory);
    must(hvd_free(more), "hvd_free");
    must(hvd_free(memory), "hvd_free");
}

static void *give(int64_t bytes, void *arg)
{
    if (bytes > BYTES)
        ranks_fail("a result of %lld bytes", (long long)bytes);
    return arg;
}

/* Results go to [output]. */
static void gather(const char *name, float *input, float *output)
{
    struct hvd_tensor tensor = tensor_at(name, input, NULL);
    struct hvd_result result = {.allocate = give, .arg = output};
    tensor.shape[0] = COUNT / size + rank;
    write_all(input, (float)(rank + 1));
    must(hvd_allgather(&tensor, &result, NULL), name);
    for (int from = 0; from < size; from++) {
        expect_all(name, output, COUNT / size + from, (float)(from + 1));
        output += COUNT / size + from;
    }
}

static void exchange(const char *name, float *input, float *output)
{
    struct hvd_tensor tensor = tensor_at(name, input, NULL);
    struct hvd_result result = {.allocate = give, .arg = output};
    tensor.shape[0] = COUNT / size * size;
    write_all(input, (float)(rank + 1));
    must(hvd_alltoall(&tensor, NULL, &result, NULL), name);
    for (int from = 0; from < size; from++)
        expect_all(name, output + from * (COUNT / size), COUNT / size, (float)(from + 1));
}

static void average(const char *name, float *memory)
{
    struct hvd_tensor tensor = tensor_at(name, memory, memory);
    struct hvd_options options = HVD_OPTIONS_INIT;
    options.prescale = 2;
    options.wire = HVD_WIRE_FLOAT16;
    write_all(memory, (float)(rank + 1));
    must(hvd_allreduce(&tensor, HVD_SUM, &options), name);
    expect_all(name, memory, COUNT, 2 * sum_of_ranks());
}

/* All ranks have registered the memory; then rank 1 uses other memory, and the others' must not be passed. */
static void mixed(void)
{
    float *memory = allocate();
    float *other = (float *)(void *)gpu_memory_new(BYTES);
    float *own = rank != 1 ? memory : other;
    sum("w", memory, memory); /* 1 */
    for (int step = 0; step < 3; step++)
        sum("w", own, own);
    broadcast("broadcast", own);
    share("share", own);
    gather("gather", own, own + COUNT);
    exchange("exchange", own, own + 2 * COUNT);
    gather("from here", memory, other);
    exchange("to here", other, memory);
    average("converted", own); /* goes through the fusion buffer: 2 */
    for (int step = 0; step < 4; step++)
        sum("w", memory, memory); /* the last three: 5 */
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    must(hvd_free(memory), "hvd_free");
    gpu_memory_free((char *)other);
}

/* Rank 1 has joined and has no memory at all. */
static void join(void)
{
    float *memory = allocate();
    int last = -1;
    sum("w", memory, memory); /* 1 */
    if (rank != 1) {
        struct hvd_tensor tensor = tensor_at("w", memory, memory);
        for (int step = 0; step < 3; step++) {
            write_all(memory, (float)(rank + 1));
            must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum with zeros");
            expect_all("with zeros", memory, COUNT, sum_of_ranks() - 2);
        }
    }
    must(hvd_join(HVD_ALL_RANKS, &last), "a join");
    for (int step = 0; step < 8; step++)
        sum("w", memory, memory); /* at the latest from the fourth on */
    must(hvd_free(memory), "hvd_free");
}

/* Two tensors end to end are one run, four with a gap are not. */
static void group(const char *name, float *memory, const int *at, int count)
{
    struct hvd_tensor tensors[4];
    char names[4][40];
    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "%s.%d", name, i);
        tensors[i] =
            tensor_at(names[i], memory + (ptrdiff_t)at[i] * COUNT, memory + (ptrdiff_t)at[i] * COUNT);
        write_all(tensors[i].output, (float)(rank + 1 + i));
    }
    must(hvd_grouped_allreduce(tensors, count, HVD_SUM, NULL), name);
    for (int i = 0; i < count; i++)
        expect_all(name, tensors[i].output, COUNT, sum_of_ranks() + (float)(i * size));
}

static void together(void)
{
    float *memory = allocate();
    struct hvd_options options = HVD_OPTIONS_INIT;
    options.prescale = 3;
    for (int step = 0; step < 3; step++)
        group("end to end", memory, (const int[]){0, 1, 2, 3}, 4);
    group("gap", memory, (const int[]){0, 1, 3}, 3);
    group("backwards", memory, (const int[]){1, 0}, 2);
    struct hvd_tensor tensors[] = {tensor_at("scaled.0", memory, memory),
                                   tensor_at("scaled.1", memory + COUNT, memory + COUNT)};
    write_all(memory, (float)(rank + 1));
    write_all(memory + COUNT, (float)(rank + 1));
    must(hvd_grouped_allreduce(tensors, 2, HVD_SUM, &options), "scaled");
    expect_all("scaled", memory, COUNT, 3 * sum_of_ranks());
    expect_all("scaled", memory + COUNT, COUNT, 3 * sum_of_ranks());
    must(hvd_free(memory), "hvd_free");
}

/* Without another call of hvd the GPU has its memory again, though NCCL has registered it. */
static void returned(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    float *kept = allocate();
    sum("kept", kept, kept);
    size_t before = gpu_memory_left();
    float *memory = allocate();
    sum("w", memory, memory);
    if (gpu_memory_left() >= before)
        ranks_fail("hvd_alloc_on takes no memory");
    must(hvd_free(memory), "hvd_free");
    for (int waited_ms = 0; gpu_memory_left() != before; waited_ms++) {
        if (waited_ms == 30000)
            ranks_fail("the memory does not come back");
        nanosleep(&pause, NULL);
    }
    must(hvd_free(kept), "hvd_free");
}

/* Memory comes and goes while operations in other memory are under way. */
static void freed(void)
{
    float *kept = allocate();
    for (int step = 0; step < 10; step++) {
        float *memory = allocate();
        hvd_handle handle = 0;
        struct hvd_tensor tensor = tensor_at("kept", kept, kept);
        sum("w", memory, memory);
        write_all(kept, (float)(rank + 1));
        must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "a sum");
        must(hvd_free(memory), "hvd_free");
        must_be(hvd_free(memory), HVD_ERR_INVALID, "hvd_free twice");
        must_say("is not memory from hvd_alloc, or was already freed", "hvd_free twice");
        must(hvd_wait(handle), "its end");
        expect_all("kept", kept, COUNT, sum_of_ranks());
    }
    must(hvd_shutdown(), "hvd_shutdown");
    write_all(kept, 7);
    expect_all("after the job", kept, COUNT, 7);
    must(hvd_init(), "a second hvd_init");
    sum("again", kept, kept); /* it is ordinary memory now */
    float *memory = allocate();
    sum("w", memory, memory);
    must(hvd_free(kept), "hvd_free");
    must(hvd_shutdown(), "hvd_shutdown");
    must(hvd_free(memory), "hvd_free after the job");
    must(hvd_init(), "a third hvd_init");
}

/* Rank 0 frees memory that an operation uses which rank 1 has not submitted. No rank waits for ever. */
static void too_early(void)
{
    float *memory = allocate();
    float *other = allocate();
    sum("w", memory, memory);
    sum("other", other, other);
    hvd_handle handle = 0;
    hvd_handle end = 0;
    struct hvd_tensor tensor = tensor_at("w", memory, memory);
    if (rank != 1)
        must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "a sum");
    if (rank == 0)
        must(hvd_free(memory), "hvd_free");
    sum("other", other, other); /* meanwhile the memory goes */
    must(hvd_barrier_async(HVD_ALL_RANKS, NULL, NULL, &end), "a barrier");
    enum hvd_status ended = hvd_wait(end); /* on the others the job may have failed by then */
    if (rank == 1) {
        must(ended, "the barrier's end");
        must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "a sum");
    }
    enum hvd_status status = hvd_wait(handle);
    if (status == HVD_OK)
        ranks_fail("a sum in memory that was freed");
    if (rank == 0)
        must_say("memory of hvd_alloc_on was freed while \"w\" uses it", "the sum");
    hvd_shutdown();
    must(hvd_init(), "hvd_init again");
    if (rank != 0)
        must(hvd_free(memory), "hvd_free");
    must(hvd_free(other), "hvd_free");
}

static void sum_in(hvd_set set, const char *name, float *memory, float expected)
{
    struct hvd_tensor tensor = tensor_at(name, memory, memory);
    struct hvd_options options = HVD_OPTIONS_INIT;
    options.set = set;
    if (hvd_set_rank(set) < 0)
        return;
    write_all(memory, (float)(rank + 1));
    must(hvd_allreduce(&tensor, HVD_SUM, &options), name);
    expect_all(name, memory, COUNT, expected);
}

/* Each set registers it with its own communicator: five operations of three ranks, three of ranks 0 and 2. */
static void sets(void)
{
    float *memory = allocate();
    hvd_set set = 0;
    sum("w", memory, memory);
    must(hvd_set_add((const int[]){0, 2}, 2, &set), "a set");
    for (int step = 0; step < 3; step++) {
        sum_in(set, "two", memory, 4);
        sum("w", memory, memory);
    }
    must(hvd_set_remove(set), "the end of the set");
    sum("w", memory, memory);
    must(hvd_free(memory), "hvd_free");
    memory = allocate();
    must(hvd_set_add((const int[]){0, 1}, 2, &set), "a set that stays");
    sum_in(set, "two", memory, 3);
    must(hvd_free(memory), "hvd_free");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
}

/* NCCL fails on one rank: the memory outlives the communicators, and is ordinary in the next job. */
static void again(void)
{
    float *memory = allocate();
    float *gone = allocate();
    struct hvd_tensor tensor = tensor_at("w", memory, memory);
    enum hvd_status status = HVD_OK;
    for (int step = 0; step < 10 && status == HVD_OK; step++)
        status = hvd_allreduce(&tensor, HVD_SUM, NULL);
    must_be(status, HVD_ERR_SYSTEM, "a sum with a broken NCCL");
    must(hvd_free(gone), "hvd_free after the error");
    hvd_shutdown();
    must(hvd_init(), "a second hvd_init");
    sum("w", memory, memory);
    float *fresh = allocate();
    sum("fresh", fresh, fresh);
    must(hvd_free(memory), "hvd_free");
    must(hvd_free(fresh), "hvd_free");
}

static void refused(void)
{
    void *memory = &memory;
    must(hvd_alloc_on(gpu_memory_ordinal(), 0, &memory), "no bytes");
    if (memory != NULL)
        ranks_fail("0 bytes are at %p", memory);
    must_be(hvd_alloc_on(gpu_memory_ordinal(), -1, &memory), HVD_ERR_INVALID, "-1 bytes");
    must_say("hvd_alloc_on: -1 bytes on device", "-1 bytes");
    must_be(hvd_alloc_on(-1, 8, &memory), HVD_ERR_INVALID, "device -1");
    must_be(hvd_alloc_on(gpu_memory_ordinal(), INT64_C(1) << 60, &memory), HVD_ERR_NO_MEMORY, "much");
    must_say("hvd_alloc_on: no memory for 1152921504606846976 bytes; a process can address 2^47", "much");
    must_be(hvd_alloc_on(gpu_memory_ordinal(), INT64_C(1) << 46, &memory), HVD_ERR_NO_MEMORY, "less");
    must_say("hvd_alloc_on: no memory of 70368744177664 bytes on GPU", "less");
    must_be(hvd_alloc_on(gpu_memory_ordinal() + 1, 8, &memory), HVD_ERR_INVALID, "another GPU");
    must_say("earlier tensors of this rank are on GPU", "another GPU");
    memory = allocate();
    must_be(hvd_free((char *)memory + 1), HVD_ERR_INVALID, "hvd_free of a place in it");
    must(hvd_free(memory), "hvd_free");
    must(hvd_shutdown(), "hvd_shutdown");
    must_be(hvd_alloc_on(gpu_memory_ordinal(), 8, &memory), HVD_ERR_STATE, "after hvd_shutdown");
    must(hvd_init(), "hvd_init again");
}

static const struct ranks_case cases[] = {
    {"same", same, false},         {"apart", apart, false},         {"elsewhere", elsewhere, false},
    {"mixed", mixed, false},       {"join", join, false},           {"together", together, false},
    {"returned", returned, false}, {"freed", freed, false},         {"sets", sets, false},
    {"again", again, false},       {"too early", too_early, false}, {"refused", refused, false},
};

int main(int argc, char **argv)
{
    return gpu_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
