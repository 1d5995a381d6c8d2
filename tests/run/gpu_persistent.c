/* gpu_persistent.c: tests one promise of libhvd about persistent operations, run by every rank of a job:
 * `gpu_persistent CASE`. Exits 0 if it held. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu_tensor.h"
#include "ranks.h"

#define TENSORS 5
#define LARGE   40000 /* elements of a tensor that is not packed, where HVD_FUSION is 64K */

static const int64_t counts[TENSORS] = {COUNT, 7, LARGE, 1, 333};

/* Tensors of several sizes, the same on all ranks, in memory of their own. */
struct group {
    char names[TENSORS][40];
    struct hvd_tensor tensors[TENSORS];
};

static float *new_floats(int64_t count)
{
    return (float *)(void *)gpu_memory_new((size_t)count * sizeof(float));
}

static void make_group(struct group *group, const char *name)
{
    for (int i = 0; i < TENSORS; i++) {
        snprintf(group->names[i], sizeof(group->names[i]), "%s.%d", name, i);
        group->tensors[i] = on_gpu(group->names[i], new_floats(counts[i]), counts[i]);
    }
}

static void free_group(struct group *group)
{
    for (int i = 0; i < TENSORS; i++)
        gpu_memory_free(group->tensors[i].output);
}

/* Every element becomes [value] + its tensor's number, or is that. */
static void fill(const struct group *group, float value)
{
    static float data[LARGE];
    for (int i = 0; i < TENSORS; i++) {
        for (int64_t at = 0; at < counts[i]; at++)
            data[at] = value + (float)i;
        gpu_memory_copy(group->tensors[i].output, data, (size_t)counts[i] * sizeof(float));
    }
}

static void expect(const char *what, const float *memory, int64_t count, float value)
{
    static float data[LARGE];
    gpu_memory_copy(data, memory, (size_t)count * sizeof(float));
    for (int64_t at = 0; at < count; at++)
        if (data[at] != value)
            ranks_fail("%s: element %lld is %g, expected %g", what, (long long)at, (double)data[at],
                       (double)value);
}

/* Every element of tensor i is [factor] * i + [value]. */
static void expect_group(const char *what, const struct group *group, float factor, float value)
{
    for (int i = 0; i < TENSORS; i++)
        expect(what, group->tensors[i].output, counts[i], factor * (float)i + value);
}

static float sum_of_ranks(void)
{
    return (float)(size * (size - 1)) / 2;
}

static void set_all(float *memory, int64_t count, float value)
{
    static float data[LARGE];
    for (int64_t at = 0; at < count; at++)
        data[at] = value;
    gpu_memory_copy(memory, data, (size_t)count * sizeof(float));
}

/* ---- Starts ------------------------------------------------------------------------------------- */

/* Starts in two streams, and operations that run once between them. */
static void starts(void)
{
    struct group group;
    hvd_persistent sum = 0;
    hvd_persistent least = 0;
    void *streams[] = {NULL, gpu_memory_stream()};
    float *other = new_floats(COUNT);
    float *alone = new_floats(COUNT);
    make_group(&group, "sum");
    struct hvd_tensor once = on_gpu("once", other, COUNT);
    struct hvd_tensor tensor = on_gpu("least", alone, COUNT);
    must(hvd_allreduce_init(group.tensors, TENSORS, HVD_SUM, NULL, &sum), "a persistent sum");
    must(hvd_allreduce_init(&tensor, 1, HVD_MIN, NULL, &least), "a persistent minimum");
    for (int step = 0; step < 12; step++) {
        hvd_handle handle = 0;
        void *stream = streams[step / 2 % 2];
        fill(&group, (float)(rank + step));
        set_all(other, COUNT, 1);
        set_all(alone, COUNT, (float)(rank + step));
        must(hvd_allreduce_async(&once, HVD_SUM, NULL, NULL, NULL, &handle), "a sum before");
        must(hvd_persistent_start(sum, stream), "a start");
        must(hvd_persistent_start(least, stream), "a second start");
        gpu_memory_wait(stream);
        must(hvd_wait(handle), "the sum before");
        must(hvd_allreduce(&once, HVD_SUM, NULL), "a sum after");
        expect_group("a start", &group, (float)size, sum_of_ranks() + (float)(size * step));
        expect("a minimum", alone, COUNT, (float)step);
        expect("two sums", other, COUNT, (float)(size * size));
    }
    must(hvd_persistent_free(sum), "its end");
    must_be(hvd_persistent_start(sum, NULL), HVD_ERR_INVALID, "a start of what was freed");
    must_say("there is no persistent operation", "a start of what was freed");
    must_be(hvd_persistent_free(sum), HVD_ERR_INVALID, "freeing it twice");
    must(hvd_persistent_free(least), "the other's end");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_end_stream(streams[1]);
    free_group(&group);
    gpu_memory_free((char *)other);
    gpu_memory_free((char *)alone);
}

/* The last rank's stream stands still for a while: what is submitted behind the start waits for it all the
 * same, and comes in the same order on all ranks. */
static void behind(void)
{
    struct hvd_options options = HVD_OPTIONS_INIT;
    hvd_persistent sum = 0;
    hvd_handle handle = 0;
    float *memory = new_floats(COUNT);
    float *other = new_floats(COUNT);
    struct hvd_tensor tensor = on_gpu("sum", memory, COUNT);
    struct hvd_tensor once = on_gpu("once", other, COUNT);
    options.stream = gpu_memory_stream();
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &sum), "a persistent sum");
    set_all(memory, COUNT, 1);
    set_all(other, COUNT, 2);
    if (odd)
        gpu_memory_hold();
    must(hvd_persistent_start(sum, NULL), "a start");
    must(hvd_allreduce_async(&once, HVD_SUM, &options, NULL, NULL, &handle), "a sum behind it");
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* it would come first on the last rank */
    gpu_memory_release();
    must(hvd_wait(handle), "the sum behind it");
    expect("a start", memory, COUNT, (float)size);
    expect("a sum behind it", other, COUNT, (float)(2 * size));
    must(hvd_persistent_free(sum), "its end");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_end_stream(options.stream);
    gpu_memory_free((char *)memory);
    gpu_memory_free((char *)other);
}

#define HALF_3 0x4200
#define HALF_6 0x4600

/* Factors that NCCL does not apply, and a type that only travels. */
static void factors(void)
{
    struct hvd_options options = HVD_OPTIONS_INIT;
    hvd_persistent average = 0;
    hvd_persistent wire = 0;
    uint16_t halves[COUNT];
    uint16_t *memory = (uint16_t *)(void *)gpu_memory_new(sizeof(halves));
    float *floats = new_floats(COUNT);
    struct hvd_tensor tensor = on_gpu("average", (float *)(void *)memory, COUNT);
    tensor.dtype = HVD_FLOAT16;
    options.prescale = 2;
    must(hvd_allreduce_init(&tensor, 1, HVD_AVERAGE, &options, &average), "a persistent average");
    options.prescale = 1;
    options.wire = HVD_WIRE_BFLOAT16;
    tensor = on_gpu("wire", floats, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, &options, &wire), "one that travels as another type");
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < COUNT; i++)
            halves[i] = HALF_3;
        gpu_memory_copy(memory, halves, sizeof(halves));
        set_all(floats, COUNT, (float)step);
        must(hvd_persistent_start(average, NULL), "an average");
        must(hvd_persistent_start(wire, NULL), "a sum of another type");
        gpu_memory_copy(halves, memory, sizeof(halves));
        for (int i = 0; i < COUNT; i++)
            if (halves[i] != HALF_6)
                ranks_fail("step %d: element %d is 0x%x", step, i, (unsigned)halves[i]);
        expect("a sum of another type", floats, COUNT, (float)(step * size));
    }
    must(hvd_persistent_free(average), "its end");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
    gpu_memory_free((char *)floats);
}

static void *given_memory(int64_t bytes, void *arg)
{
    (void)bytes;
    return arg;
}

/* A broadcast, an allgather of which rank r has r + 1 rows, and a reducescatter of uneven shares, all in one
 * graph that is launched several times. */
static void kinds(void)
{
    int64_t rows = rank + 1;
    int64_t all = (int64_t)size * (size + 1) / 2;
    int64_t shares = 2 * (int64_t)size + 1;
    int64_t share = hvd_share_rows(shares, rank, size);
    float *memory[] = {new_floats(COUNT), new_floats(rows), new_floats(all), new_floats(shares),
                       new_floats(share)};
    struct hvd_tensor tensor = on_gpu("broadcast", memory[0], COUNT);
    struct hvd_result result = {.allocate = given_memory, .arg = memory[2]};
    hvd_persistent made[3] = {0};
    void *stream = gpu_memory_stream();
    must(hvd_broadcast_init(&tensor, size - 1, NULL, &made[0]), "a persistent broadcast");
    tensor = on_gpu("allgather", memory[1], rows);
    tensor.output = NULL;
    must(hvd_allgather_init(&tensor, &result, 1, NULL, &made[1]), "a persistent allgather");
    if (result.row_count != all || result.data != memory[2])
        ranks_fail("%lld rows", (long long)result.row_count);
    tensor = on_gpu("reducescatter", memory[3], shares);
    tensor.output = memory[4];
    must(hvd_reducescatter_init(&tensor, 1, HVD_SUM, NULL, &made[2]), "a persistent reducescatter");
    gpu_memory_capture(stream, false);
    for (int i = 0; i < 3; i++)
        must(hvd_persistent_start(made[i], stream), "a captured start");
    void *graph = gpu_memory_end_capture(stream);
    for (int step = 0; step < 4; step++) {
        set_all(memory[0], COUNT, (float)(rank + step));
        set_all(memory[1], rows, (float)step);
        set_all(memory[3], shares, (float)step);
        gpu_memory_launch(graph, stream);
        gpu_memory_wait(stream);
        expect("a broadcast", memory[0], COUNT, (float)(size - 1 + step));
        expect("an allgather", memory[2], all, (float)step);
        expect("a reducescatter", memory[4], share, (float)(step * size));
    }
    gpu_memory_discard(graph);
    for (int i = 0; i < 3; i++)
        must(hvd_persistent_free(made[i]), "their end");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_end_stream(stream);
    for (int i = 0; i < 5; i++)
        gpu_memory_free((char *)memory[i]);
}

/* ---- Graphs ------------------------------------------------------------------------------------- */

/* Operations that are refused while a persistent one is in a graph, and are known by name from before. */
static void sum_beside(float *memory)
{
    hvd_handle handle = 0;
    struct hvd_tensor waits = on_gpu("beside", memory, COUNT);
    struct hvd_tensor later = on_gpu("beside, later", memory, COUNT);
    set_all(memory, COUNT, 1);
    must(hvd_allreduce(&waits, HVD_SUM, NULL), "a sum");
    must(hvd_allreduce_async(&later, HVD_SUM, NULL, NULL, NULL, &handle), "a sum that is waited for later");
    must(hvd_wait(handle), "a sum that is waited for later");
    expect("two sums", memory, COUNT, (float)(size * size));
}

/* What is refused while [name] is in a graph. */
static void expect_refusals(const char *name, float *memory)
{
    static const int ranks[] = {0};
    struct hvd_tensor tensor = on_gpu("beside", memory, COUNT);
    struct hvd_tensor later = on_gpu("beside, later", memory, COUNT);
    hvd_persistent other = 0;
    hvd_handle handle = 7;
    hvd_set set = 0;
    int last = 0;
    must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_STATE, "a sum beside a graph");
    must_say("allreduce \"beside\": persistent allreduce \"", "a sum beside a graph");
    must_say(name, "a sum beside a graph");
    must_say("free that with hvd_persistent_free first", "a sum beside a graph");
    must_be(hvd_allreduce_async(&later, HVD_SUM, NULL, NULL, NULL, &handle), HVD_ERR_STATE,
            "a sum that is waited for later");
    if (handle != 7)
        ranks_fail("a refused call wrote the handle %llu", (unsigned long long)handle);
    must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &other), HVD_ERR_STATE,
            "another one beside a graph");
    must_be(hvd_join(HVD_ALL_RANKS, &last), HVD_ERR_STATE, "a join beside a graph");
    if (size > 1)
        must_be(hvd_set_add(ranks, 1, &set), HVD_ERR_STATE, "a process set beside a graph");
    float here = 1;
    tensor = hvd_vector("on the host", &here, 1, HVD_FLOAT32);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum on the host beside a graph");
}

/* Two persistent operations in one graph, with a copy between them. */
static void graph(void)
{
    struct group group;
    hvd_persistent made[2] = {0};
    void *stream = gpu_memory_stream();
    float *from = new_floats(COUNT);
    float *to = new_floats(COUNT);
    make_group(&group, "in a graph");
    struct hvd_tensor tensor = on_gpu("copied", to, COUNT);
    sum_beside(from);
    must(hvd_allreduce_init(group.tensors, TENSORS, HVD_AVERAGE, NULL, &made[0]), "a persistent average");
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made[1]), "a persistent sum");
    must(hvd_persistent_start(made[0], stream), "a start that is not captured");
    gpu_memory_wait(stream);
    gpu_memory_capture(stream, false);
    must(hvd_persistent_start(made[0], stream), "a captured start");
    gpu_memory_copy_in(stream, to, from, COUNT * sizeof(float));
    must(hvd_persistent_start(made[1], stream), "another one");
    must(hvd_persistent_start(made[1], stream), "and again");
    void *captured = gpu_memory_end_capture(stream);
    for (int step = 0; step < 5; step++) {
        fill(&group, (float)(size * step));
        set_all(from, COUNT, (float)step);
        gpu_memory_launch(captured, stream);
        gpu_memory_launch(captured, stream);
        gpu_memory_wait(stream);
        expect_group("an average", &group, 1, (float)(size * step));
        expect("two sums", to, COUNT, (float)(step * size * size));
    }
    expect_refusals("in a graph.0", from);
    set_all(to, COUNT, 1);
    must(hvd_persistent_start(made[1], stream), "a start beside the graph");
    gpu_memory_wait(stream);
    expect("a start beside the graph", to, COUNT, (float)size);
    gpu_memory_discard(captured);
    must(hvd_persistent_free(made[0]), "the end of the first");
    expect_refusals("copied", from);
    must(hvd_persistent_free(made[1]), "the end of the second");
    sum_beside(from);
    set_all(from, COUNT, 1);
    tensor = on_gpu("after", from, COUNT);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum after the graph");
    expect("a sum after the graph", from, COUNT, (float)size);
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_end_stream(stream);
    free_group(&group);
    gpu_memory_free((char *)from);
    gpu_memory_free((char *)to);
}

/* A capture waits for what the GPU still does for hvd; one that failed is refused, and the next may follow.
 */
static void captures(void)
{
    float *memory = new_floats(COUNT);
    float *busy = new_floats(COUNT);
    void *stream = gpu_memory_stream();
    hvd_persistent sum = 0;
    hvd_handle handle = 0;
    struct hvd_tensor tensor = on_gpu("sum", memory, COUNT);
    struct hvd_tensor once = on_gpu("busy", busy, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &sum), "a persistent sum");
    must(hvd_allreduce_async(&once, HVD_SUM, NULL, NULL, NULL, &handle), "a sum before");
    gpu_memory_capture(stream, true);
    must(hvd_persistent_start(sum, stream), "a captured start");
    if (hvd_test(handle) == HVD_IN_PROGRESS)
        ranks_fail("the sum before is not done");
    void *captured = gpu_memory_end_capture(stream);
    must(hvd_wait(handle), "the sum before");
    set_all(memory, COUNT, 1);
    gpu_memory_launch(captured, stream);
    gpu_memory_wait(stream);
    expect("a captured sum", memory, COUNT, (float)size);
    gpu_memory_discard(captured);
    must(hvd_persistent_free(sum), "its end");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_end_stream(stream);
    gpu_memory_free((char *)memory);
    gpu_memory_free((char *)busy);
}

/* ---- Disagreement ------------------------------------------------------------------------------- */

static void mismatch(void)
{
    float here[COUNT] = {0};
    float *memory = new_floats(COUNT);
    hvd_persistent made = 0;
    struct hvd_tensor tensor = on_gpu("w", memory, odd ? COUNT / 2 : COUNT);
    must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), HVD_ERR_MISMATCH, "two shapes");
    must_say("persistent allreduce \"w\": rank ", "two shapes");
    must_say("float32[1000]", "two shapes");
    must_say("float32[500]", "two shapes");
    must_agree("two shapes");
    tensor = on_gpu("w", memory, COUNT);
    must_be(odd ? hvd_grouped_allreduce(&tensor, 1, HVD_SUM, NULL)
                : hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made),
            HVD_ERR_MISMATCH, "one that runs once");
    must_say("a persistent operation", "one that runs once");
    must_say("one that runs once", "one that runs once");
    must_agree("one that runs once");
    if (odd)
        tensor = hvd_vector("w", here, COUNT, HVD_FLOAT32);
    must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), HVD_ERR_MISMATCH, "two memories");
    must_say("float32 in host memory", "two memories");
    must_say("float32 on a GPU", "two memories");
    must_agree("two memories");
    if (made != 0)
        ranks_fail("an operation was made");
    gpu_memory_free((char *)memory);
}

static void unsupported(void)
{
    float here[COUNT] = {0};
    float *memory = new_floats(COUNT);
    hvd_persistent made = 0;
    struct hvd_tensor tensor = hvd_vector("w", here, COUNT, HVD_FLOAT32);
    must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), HVD_ERR_UNSUPPORTED, "host memory");
    must_say("persistent allreduce \"w\": a tensor is in host memory", "host memory");
    tensor = on_gpu("w", memory, COUNT);
    tensor.dtype = HVD_INT16;
    must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), HVD_ERR_UNSUPPORTED, "int16");
    must_say("NCCL does not carry it", "int16");
    tensor.dtype = HVD_FLOAT32;
    must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, NULL), HVD_ERR_INVALID, "no room for it");
    must_say("persistentp is NULL", "no room for it");
    must_be(hvd_allreduce_init(&tensor, 0, HVD_SUM, NULL, &made), HVD_ERR_INVALID, "no tensor");
    must_say("expected 1 to 16384 tensors", "no tensor");
    must_be(hvd_persistent_start(77, NULL), HVD_ERR_INVALID, "one that was never made");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

/* NCCL does not connect the GPUs of these ranks. */
static void refused(void)
{
    float *memory = new_floats(COUNT);
    hvd_persistent made = 0;
    struct hvd_tensor tensor = on_gpu("w", memory, COUNT);
    for (int i = 0; i < 2; i++) {
        must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), HVD_ERR_UNSUPPORTED, "one GPU");
        must_say(getenv("REFUSAL"), "one GPU");
        must_agree("one GPU");
    }
    set_all(memory, COUNT, 1);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum through the host");
    expect("a sum through the host", memory, COUNT, (float)size);
    gpu_memory_free((char *)memory);
}

/* The only rank: from one tensor to another, by factors, of a type that NCCL does not reduce. */
static void alone(void)
{
    int16_t data[COUNT];
    int16_t *memory = (int16_t *)(void *)gpu_memory_new(2 * sizeof(data));
    struct hvd_options options = HVD_OPTIONS_INIT;
    struct hvd_tensor tensor = on_gpu("alone", (float *)(void *)memory, COUNT);
    tensor.dtype = HVD_INT16;
    tensor.output = memory + COUNT;
    for (int i = 0; i < 4; i++) {
        hvd_persistent made = 0;
        options.prescale = i % 2 == 0 ? 1 : 3;
        options.postscale = i / 2 == 0 ? 1 : 5;
        must(hvd_allreduce_init(&tensor, 1, HVD_SUM, &options, &made), "one of a rank alone");
        for (int at = 0; at < COUNT; at++)
            data[at] = (int16_t)(at + i);
        gpu_memory_copy(memory, data, sizeof(data));
        must(hvd_persistent_start(made, NULL), "its start");
        gpu_memory_copy(data, memory + COUNT, sizeof(data));
        for (int at = 0; at < COUNT; at++)
            if (data[at] != (at + i) * options.prescale * options.postscale)
                ranks_fail("round %d: element %d is %d", i, at, data[at]);
        must(hvd_persistent_free(made), "its end");
    }
    gpu_memory_free((char *)memory);
}

/* ---- Ends --------------------------------------------------------------------------------------- */

/* The process set goes away: its operation ends, the others do not. */
static void sets(void)
{
    static const int members[] = {0, 2};
    struct hvd_options options = HVD_OPTIONS_INIT;
    float *memory = new_floats(COUNT);
    hvd_persistent in_set = 0;
    hvd_persistent in_all = 0;
    hvd_set set = 0;
    struct hvd_tensor tensor = on_gpu("all", memory, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &in_all), "a persistent sum");
    must(hvd_set_add(members, 2, &set), "a process set");
    options.set = set;
    tensor.name = "in the set";
    if (rank == 1) {
        must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, &options, &in_set), HVD_ERR_SET, "no member");
    } else {
        must(hvd_allreduce_init(&tensor, 1, HVD_SUM, &options, &in_set), "a persistent sum in the set");
        set_all(memory, COUNT, 1);
        must(hvd_persistent_start(in_set, NULL), "its start");
        expect("a sum in the set", memory, COUNT, 2);
        must(hvd_persistent_start(in_set, NULL), "a start that goes on");
    }
    must(hvd_set_remove(set), "the set's end");
    if (rank != 1) {
        must_be(hvd_persistent_start(in_set, NULL), HVD_ERR_SET, "a start after it");
        must_say("persistent allreduce \"in the set\" in process set 1: process set 1 was removed",
                 "a start after it");
        must(hvd_persistent_free(in_set), "its end");
    }
    set_all(memory, COUNT, 1);
    must(hvd_persistent_start(in_all, NULL), "a start in the other set");
    expect("a sum of all", memory, COUNT, (float)size);
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

static void joined(void)
{
    float *memory = new_floats(COUNT);
    hvd_persistent made = 0;
    hvd_handle handle = 0;
    struct hvd_tensor tensor = on_gpu("w", memory, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), "a persistent sum");
    if (rank != 0) {
        must(hvd_join_async(HVD_ALL_RANKS, NULL, NULL, NULL, &handle), "a join");
        must_be(hvd_persistent_start(made, NULL), HVD_ERR_STATE, "a start after a join");
        must_say("this rank has joined", "a start after a join");
        must(hvd_wait(handle), "the join");
    } else {
        tensor.name = "alone";
        must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum with ranks that have joined");
        must_be(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), HVD_ERR_MISMATCH,
                "one with such ranks");
        must_say("has joined", "one with such ranks");
        must(hvd_join(HVD_ALL_RANKS, NULL), "the last join");
    }
    set_all(memory, COUNT, 1);
    if (rank != 0 || size == 1)
        must(hvd_persistent_start(made, NULL), "a start when all have joined");
    else
        must(hvd_persistent_start(made, NULL), "the same on rank 0");
    expect("a sum when all have joined", memory, COUNT, (float)size);
    gpu_memory_free((char *)memory);
}

/* hvd_shutdown, with one that has been started, and, in "left graph", one in a graph that is still there. */
static void leave_with(bool captured)
{
    float *memory = new_floats(COUNT);
    void *stream = gpu_memory_stream();
    void *left = NULL;
    hvd_persistent made = 0;
    struct hvd_tensor tensor = on_gpu("w", memory, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), "a persistent sum");
    must(hvd_persistent_start(made, stream), "a start");
    if (captured) {
        gpu_memory_wait(stream);
        gpu_memory_capture(stream, false);
        must(hvd_persistent_start(made, stream), "a captured start");
        left = gpu_memory_end_capture(stream);
        gpu_memory_launch(left, stream);
        gpu_memory_wait(stream);
    }
    must(hvd_shutdown(), "hvd_shutdown");
    must_be(hvd_persistent_start(made, stream), HVD_ERR_SHUTDOWN, "a start after it");
    must_be(hvd_persistent_free(made), HVD_ERR_SHUTDOWN, "its end after it");
    if (captured)
        gpu_memory_discard(left);
    gpu_memory_end_stream(stream);
    gpu_memory_free((char *)memory);
    if (captured)
        exit(0); /* NCCL may end the communicator at this moment */
}

static void left(void)
{
    leave_with(false);
}

/* After hvd_shutdown and hvd_init the number of an operation of before names none. */
static void again(void)
{
    float *memory = new_floats(COUNT);
    hvd_persistent made[2] = {0};
    struct hvd_tensor tensor = on_gpu("w", memory, COUNT);
    for (int job = 0; job < 2; job++) {
        must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made[job]), "a persistent sum");
        if (job == 0) {
            must(hvd_shutdown(), "hvd_shutdown");
            must(hvd_init(), "a second hvd_init");
        }
    }
    must_be(hvd_persistent_free(made[0]), HVD_ERR_INVALID, "the end of the one before");
    must_be(hvd_persistent_start(made[0], NULL), HVD_ERR_INVALID, "its start");
    set_all(memory, COUNT, 1);
    must(hvd_persistent_start(made[1], NULL), "a start");
    expect("a sum", memory, COUNT, (float)size);
    must(hvd_persistent_free(made[1]), "its end");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

static void left_graph(void)
{
    leave_with(true);
}

/* The last rank dies while the others wait for it, in a graph or not. */
static void lose(bool captured)
{
    char name[40];
    float *memory = new_floats(COUNT);
    void *stream = gpu_memory_stream();
    hvd_persistent made = 0;
    void *launched = NULL;
    enum hvd_status status = HVD_OK;
    struct hvd_tensor tensor = on_gpu("w", memory, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), "a persistent sum");
    if (captured) {
        gpu_memory_capture(stream, false);
        must(hvd_persistent_start(made, stream), "a captured start");
        launched = gpu_memory_end_capture(stream);
    }
    must_or_lose(hvd_barrier(HVD_ALL_RANKS), "that all have it");
    if (odd)
        raise(SIGKILL);
    if (captured)
        gpu_memory_launch(launched, stream);
    else
        status = hvd_persistent_start(made, stream);
    gpu_memory_wait(stream); /* it ends, for the communicator is given up */
    if (status == HVD_OK)
        status = hvd_barrier(HVD_ALL_RANKS);
    must_be(status, HVD_ERR_RANK_LOST, "a start or barrier without the last rank");
    must_be(hvd_persistent_start(made, stream), HVD_ERR_RANK_LOST, "a start after it");
    snprintf(name, sizeof(name), "rank %d", size - 1);
    must_say(name, "a start after it");
    must(hvd_persistent_free(made), "its end");
    if (captured)
        gpu_memory_discard(launched);
    leave_failed();
}

static void lost(void)
{
    lose(false);
}

static void lost_in_graph(void)
{
    lose(true);
}

/* HVD_DOUBLE_NCCL_FAIL lets NCCL fail, in a start or in a graph. */
static void broken(void)
{
    float *memory = new_floats(COUNT);
    void *stream = gpu_memory_stream();
    hvd_persistent made = 0;
    struct hvd_tensor tensor = on_gpu("w", memory, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), "a persistent sum");
    gpu_memory_capture(stream, false);
    enum hvd_status status = hvd_barrier(HVD_ALL_RANKS); /* another rank may have failed behind it */
    if (status == HVD_OK)
        status = hvd_persistent_start(made, stream);
    void *launched = gpu_memory_end_capture(stream);
    if (status == HVD_OK) {
        gpu_memory_launch(launched, stream);
        gpu_memory_wait(stream);
    }
    gpu_memory_discard(launched);
    for (int i = 0; i < 100 && status == HVD_OK; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        status = hvd_barrier(HVD_ALL_RANKS);
    }
    must_be(status, HVD_ERR_SYSTEM, "a broken NCCL");
    must_say("NCCL: unhandled cuda error", "a broken NCCL");
    must_be(hvd_persistent_start(made, NULL), HVD_ERR_SYSTEM, "a start after it");
    leave_failed();
}

/* A member that does not start it keeps the others waiting: after HVD_HANG_ABORT the job ends. */
static void missing(void)
{
    float *memory = new_floats(COUNT);
    void *stream = gpu_memory_stream();
    hvd_persistent made = 0;
    enum hvd_status status = HVD_OK;
    struct hvd_tensor tensor = on_gpu("w", memory, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made), "a persistent sum");
    if (!odd)
        must(hvd_persistent_start(made, stream), "a start");
    for (int i = 0; i < 1000 && status == HVD_OK; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        status = hvd_barrier(HVD_ALL_RANKS);
    }
    must_be(status, HVD_ERR_TIMEOUT, "a start that one rank does not make");
    must_say("in persistent allreduce \"w\", which has not moved for", "a start that one rank does not make");
    leave_failed();
}

/* Starts that the host does not wait for, and that make no call that waits for the GPU. */
static void steady(void)
{
    struct group group;
    hvd_persistent made = 0;
    void *stream = gpu_memory_stream();
    make_group(&group, "steady");
    must(hvd_allreduce_init(group.tensors, TENSORS, HVD_SUM, NULL, &made), "a persistent sum");
    must(hvd_persistent_start(made, stream), "a start");
    must(hvd_barrier(HVD_ALL_RANKS), "that all are steady");
    int waits = gpu_memory_waits();
    gpu_memory_hold();
    for (int i = 0; i < 10; i++)
        must(hvd_persistent_start(made, NULL), "a start in a stream that stands still");
    gpu_memory_release();
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    waits = gpu_memory_waits() - waits;
    if (waits != 0)
        ranks_fail("the host has made %d calls that wait for the GPU", waits);
    must(hvd_persistent_free(made), "its end");
    gpu_memory_wait(NULL);
    gpu_memory_end_stream(stream);
    free_group(&group);
}

/* Until so much memory of the GPU is free again; a while at most. */
static void await_memory(size_t bytes)
{
    for (int look = 0; look < 2000 && gpu_memory_left() < bytes; look++)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    if (gpu_memory_left() < bytes)
        ranks_fail("%zu bytes are free, and %zu were", gpu_memory_left(), bytes);
}

/* Many are made, started and freed: what they had goes back. */
static void many(void)
{
    struct group group;
    size_t before = 0;
    make_group(&group, "many");
    for (int i = 0; i < 60; i++) {
        hvd_persistent made = 0;
        must(hvd_allreduce_init(group.tensors, TENSORS, HVD_SUM, NULL, &made), "one of many");
        must(hvd_persistent_start(made, NULL), "its start");
        if (i == 0)
            before = gpu_memory_left();
        must(hvd_persistent_free(made), "its end");
        await_memory(before + 1); /* it had a buffer */
    }
    free_group(&group);
}

/* In memory of hvd_alloc_on: all have it at the same offset, and then one rank elsewhere. */
static void placed(void)
{
    void *memory = NULL;
    hvd_persistent made[2] = {0};
    float *other = new_floats(COUNT);
    must(hvd_alloc_on(gpu_memory_ordinal(), COUNT * sizeof(float), &memory), "memory");
    struct hvd_tensor tensor = on_gpu("placed", memory, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made[0]), "one at the same offset");
    tensor = on_gpu("elsewhere", odd ? other : memory, COUNT);
    must(hvd_allreduce_init(&tensor, 1, HVD_SUM, NULL, &made[1]), "one that differs");
    for (int step = 0; step < 4; step++) {
        float *where = step % 2 == 1 && odd ? other : memory;
        set_all(where, COUNT, (float)step);
        must(hvd_persistent_start(made[step % 2], NULL), "a start");
        expect("a sum", where, COUNT, (float)(step * size));
    }
    must(hvd_persistent_free(made[0]), "the first's end");
    must(hvd_persistent_free(made[1]), "the second's end");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    must(hvd_free(memory), "the memory's end");
    gpu_memory_free((char *)other);
}

static const struct ranks_case cases[] = {
    {"starts", starts, false},
    {"behind", behind, false},
    {"factors", factors, false},
    {"kinds", kinds, false},
    {"graph", graph, false},
    {"captures", captures, false},
    {"mismatch", mismatch, false},
    {"unsupported", unsupported, false},
    {"refused", refused, false},
    {"alone", alone, false},
    {"sets", sets, false},
    {"joined", joined, false},
    {"left", left, false},
    {"again", again, false},
    {"left graph", left_graph, false},
    {"lost", lost, false},
    {"lost in graph", lost_in_graph, false},
    {"broken", broken, false},
    {"missing", missing, false},
    {"steady", steady, false},
    {"many", many, false},
    {"placed", placed, false},
};

int main(int argc, char **argv)
{
    return gpu_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
