/* gpu.c: tests one promise of libhvd about tensors on GPUs, run by every rank of a job: `gpu CASE`. Exits 0
 * if it held. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu_tensor.h"
#include "ranks.h"

/* The stream waits for a sum; the host need not. */
static void streams(void)
{
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    for (int step = 0; step < 20; step++) {
        float data[COUNT];
        hvd_handle handle = 0;
        for (int i = 0; i < COUNT; i++)
            data[i] = (float)(rank + i + step);
        gpu_memory_copy(memory, data, sizeof(data));
        struct hvd_tensor tensor = on_gpu("sum", memory, COUNT);
        must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "a sum");
        must(hvd_wait_on_stream(handle, NULL), "its launch");
        gpu_memory_copy(data, memory, sizeof(data)); /* in the stream that waits */
        for (int i = 0; i < COUNT; i++)
            if (data[i] != (float)(size * (i + step) + size * (size - 1) / 2))
                ranks_fail("step %d, element %d is %g", step, i, (double)data[i]);
        must_be(hvd_test(handle), HVD_ERR_INVALID, "a handle that was released");
    }
    float here = 1;
    hvd_handle handle = 0;
    struct hvd_tensor tensor = hvd_vector("on the host", &here, 1, HVD_FLOAT32);
    must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "a sum on the host");
    must(hvd_wait_on_stream(handle, NULL), "its end");
    if (here != (float)size)
        ranks_fail("the host's sum is %g", (double)here);
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

static void *allocate(int64_t bytes, void *arg)
{
    (void)arg;
    return gpu_memory_new((size_t)bytes);
}

/* Once the launch is waited for, the result struct is the program's: here it is used again at once. */
static void gathers(void)
{
    float *memory = (float *)(void *)gpu_memory_new((size_t)size * sizeof(float));
    float data[64] = {0};
    for (int step = 0; step < 20; step++) {
        struct hvd_result result = {.allocate = allocate};
        hvd_handle handle = 0;
        int64_t rows = rank % 2 + 1;
        data[0] = data[1] = (float)(rank + step);
        gpu_memory_copy(memory, data, (size_t)rows * sizeof(float));
        struct hvd_tensor tensor = on_gpu("rows", memory, rows);
        tensor.output = NULL;
        must(hvd_allgather_async(&tensor, &result, NULL, NULL, NULL, &handle), "an allgather");
        must(hvd_wait_on_stream(handle, NULL), "its launch");
        if (result.row_count != size + size / 2)
            ranks_fail("step %d: %lld rows", step, (long long)result.row_count);
        gpu_memory_copy(data, result.data, (size_t)result.row_count * sizeof(float));
        for (int i = 0, member = 0; member < size; i += member % 2 + 1, member++)
            if (data[i] != (float)(member + step))
                ranks_fail("step %d: the first row of rank %d is %g", step, member, (double)data[i]);
        gpu_memory_free(result.data);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

/* Half of the ranks have it on the GPU. */
static void mismatch(void)
{
    float here[4] = {1, 2, 3, 4};
    float *memory = (float *)(void *)gpu_memory_new(sizeof(here));
    struct hvd_tensor tensor = rank == 0 ? hvd_vector("w", here, 4, HVD_FLOAT32) : on_gpu("w", memory, 4);
    must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_MISMATCH, "host and GPU");
    must_say("rank 1", "host and GPU");
    must_say("float32 in host memory", "host and GPU");
    must_say("float32 on a GPU", "host and GPU");
    must_agree("host and GPU");
    gpu_memory_free((char *)memory);
}

static void refused(void)
{
    float here[4] = {1, 2, 3, 4};
    float *memory = (float *)(void *)gpu_memory_new(sizeof(here));
    struct hvd_result result = {0};
    struct hvd_tensor tensor = on_gpu("w", memory, 4);
    gpu_memory_copy(memory, here, sizeof(here));
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a tensor on GPU 0");
    tensor.device = 1;
    must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_INVALID, "another GPU");
    must_say("it is on GPU 1, but earlier tensors of this rank are on GPU 0", "another GPU");
    tensor.device = 0;
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "the first GPU again");
    tensor.output = NULL;
    for (int i = 0; i < 2; i++) {
        result = (struct hvd_result){.allocate = allocate};
        must(hvd_allgather(&tensor, &result, NULL), "a result on the GPU");
        gpu_memory_free(result.data);
        result = (struct hvd_result){.allocate = NULL};
        must_be(hvd_allgather(&tensor, &result, NULL), HVD_ERR_INVALID, "a result from malloc");
        must_say("result.allocate is NULL", "a result from malloc");
    }
    /* memory that was the host's at the same call before */
    for (int i = 0; i < 2; i++) {
        tensor = hvd_vector("half", here, 4, HVD_FLOAT32);
        must(hvd_allreduce(&tensor, HVD_SUM, NULL), "in the host's memory");
        tensor.input = memory;
        must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_INVALID, "half on the GPU");
        must_say("input is on a GPU and output is in host memory", "half on the GPU");
    }
    gpu_memory_free((char *)memory);
}

/* Ranks that have joined take part with zeros, whether they have used the GPU or not. */
static void join(void)
{
    float data[COUNT];
    int last = -1;
    if (rank != 0) {
        must(hvd_join(HVD_ALL_RANKS, &last), "a join");
        return;
    }
    float *memory = (float *)(void *)gpu_memory_new(sizeof(data));
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)i;
    gpu_memory_copy(memory, data, sizeof(data));
    struct hvd_tensor tensor = on_gpu("alone", memory, COUNT);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum with ranks that have joined");
    memset(data, 0, sizeof(data));
    gpu_memory_copy(data, memory, sizeof(data));
    for (int i = 0; i < COUNT; i++)
        if (data[i] != (float)i)
            ranks_fail("element %d is %g", i, (double)data[i]);
    gpu_memory_free((char *)memory);
    must(hvd_join(HVD_ALL_RANKS, &last), "the last join");
    if (last != 0)
        ranks_fail("rank %d joined last", last);
}

#define GROUP 4

/* The tensors of a group share a batch, and so the fusion buffer. */
static void sum_group(const char *name, float *memory, float value, float expected)
{
    float data[GROUP * COUNT];
    struct hvd_tensor tensors[GROUP];
    char names[GROUP][40];
    for (int i = 0; i < GROUP * COUNT; i++)
        data[i] = value;
    gpu_memory_copy(memory, data, sizeof(data));
    for (int i = 0; i < GROUP; i++) {
        snprintf(names[i], sizeof(names[i]), "%s.%d", name, i);
        tensors[i] = on_gpu(names[i], memory + (ptrdiff_t)i * COUNT, COUNT);
    }
    must(hvd_grouped_allreduce(tensors, GROUP, HVD_SUM, NULL), name);
    gpu_memory_copy(data, memory, sizeof(data));
    for (int i = 0; i < GROUP * COUNT; i++)
        if (data[i] != expected)
            ranks_fail("%s: element %d is %g", name, i, (double)data[i]);
}

/* Five batches go through the fusion buffer on all ranks. In two more the ranks that have joined have zeros
 * in it, of which rank 0 packs only one. */
static void fused(void)
{
    int last = -1;
    float *memory = (float *)(void *)gpu_memory_new(GROUP * COUNT * sizeof(float));
    for (int step = 0; step < 5; step++)
        sum_group("fused", memory, (float)(rank + step), (float)(size * (size - 1) / 2 + size * step));
    if (rank != 0) {
        must(hvd_join(HVD_ALL_RANKS, &last), "a join");
    } else {
        struct hvd_tensor tensor = on_gpu("alone", memory, COUNT);
        must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum with ranks that have joined");
        sum_group("with joined", memory, 3, 3);
        must(hvd_join(HVD_ALL_RANKS, &last), "the last join");
    }
    gpu_memory_free((char *)memory);
}

/* Two batches of a group that rank 0 has in its tensors, and the others, which have joined, in a buffer. */
static void grouped_with_joined(char *memory)
{
    int last = -1;
    float narrow[COUNT];
    double wide[COUNT];
    if (rank != 0) {
        must(hvd_join(HVD_ALL_RANKS, &last), "a join");
        return;
    }
    struct hvd_tensor tensors[] = {on_gpu("narrow", (float *)(void *)memory, COUNT),
                                   on_gpu("wide", (float *)(void *)(memory + sizeof(wide)), COUNT)};
    tensors[1].dtype = HVD_FLOAT64;
    for (int i = 0; i < COUNT; i++)
        wide[i] = narrow[i] = (float)i;
    gpu_memory_copy(memory, narrow, sizeof(narrow));
    gpu_memory_copy(memory + sizeof(wide), wide, sizeof(wide));
    must(hvd_grouped_allreduce(tensors, 2, HVD_SUM, NULL), "a sum with ranks that have joined");
    gpu_memory_copy(narrow, memory, sizeof(narrow));
    gpu_memory_copy(wide, memory + sizeof(wide), sizeof(wide));
    for (int i = 0; i < COUNT; i++)
        if (narrow[i] != (float)i || wide[i] != i)
            ranks_fail("element %d is %g and %g", i, (double)narrow[i], wide[i]);
    must(hvd_join(HVD_ALL_RANKS, &last), "the last join");
}

/* Tensors of three types are three batches, of which NCCL gets one group. */
static void grouped(void)
{
    static const enum hvd_dtype dtypes[] = {HVD_FLOAT32, HVD_FLOAT64, HVD_INT32};
    char *memory = gpu_memory_new(2 * 3 * COUNT * sizeof(double));
    double wide[2 * COUNT];
    float narrow[2 * COUNT];
    int32_t whole[2 * COUNT];
    void *const here[] = {narrow, wide, whole};
    const size_t bytes[] = {sizeof(narrow), sizeof(wide), sizeof(whole)};
    for (int step = 0; step < 5; step++) {
        struct hvd_tensor tensors[6];
        char names[6][20];
        for (int i = 0; i < 2 * COUNT; i++) {
            wide[i] = rank + i;
            narrow[i] = (float)wide[i];
            whole[i] = rank + i;
        }
        for (int i = 0; i < 6; i++) {
            char *begin = memory + (size_t)(i / 2) * sizeof(wide);
            snprintf(names[i], sizeof(names[i]), "mixed.%d", i);
            if (i % 2 == 0)
                gpu_memory_copy(begin, here[i / 2], bytes[i / 2]);
            tensors[i] = on_gpu(names[i], (float *)(void *)(begin + (i % 2) * bytes[i / 2] / 2), COUNT);
            tensors[i].dtype = dtypes[i / 2];
        }
        must(hvd_grouped_allreduce(tensors, 6, HVD_SUM, NULL), "a sum of three types");
        for (int i = 0; i < 3; i++)
            gpu_memory_copy(here[i], memory + (size_t)i * sizeof(wide), bytes[i]);
        for (int i = 0; i < 2 * COUNT; i++) {
            int sum = size * i + size * (size - 1) / 2;
            if (wide[i] != sum || narrow[i] != (float)sum || whole[i] != sum)
                ranks_fail("element %d is %g, %g, %d", i, (double)narrow[i], wide[i], (int)whole[i]);
        }
    }
    grouped_with_joined(memory);
    gpu_memory_free(memory);
}

#define HALF_3 0x4200
#define HALF_6 0x4600

/* A tensor of float16 that is averaged by three, alone and with a prescale. NCCL's factor would be rounded.
 */
static void average(void)
{
    uint16_t data[COUNT];
    char *memory = gpu_memory_new(sizeof(data));
    for (int step = 0; step < 4; step++) {
        struct hvd_options options = HVD_OPTIONS_INIT;
        struct hvd_tensor tensor = on_gpu("average", (float *)(void *)memory, COUNT);
        tensor.dtype = HVD_FLOAT16;
        tensor.name = step % 2 == 0 ? "average" : "twice the average";
        options.prescale = step % 2 == 0 ? 1 : 2;
        for (int i = 0; i < COUNT; i++)
            data[i] = HALF_3;
        gpu_memory_copy(memory, data, sizeof(data));
        must(hvd_allreduce(&tensor, HVD_AVERAGE, &options), "an average");
        gpu_memory_copy(data, memory, sizeof(data));
        for (int i = 0; i < COUNT; i++)
            if (data[i] != (step % 2 == 0 ? HALF_3 : HALF_6))
                ranks_fail("step %d: element %d is 0x%x", step, i, (unsigned)data[i]);
    }
    gpu_memory_free(memory);
}

/* E4M3 of three ranks: a sum, an average, and a broadcast. */
static void float8(void)
{
    enum { ONE = 0x38, TWO = 0x40, THREE = 0x44, SIX = 0x4c };
    static const uint8_t own[] = {ONE, TWO, THREE}, expected[] = {SIX, TWO, THREE};
    static const char *const names[] = {"a sum", "an average", "a broadcast"};
    uint8_t data[COUNT];
    char *memory = gpu_memory_new(sizeof(data));
    for (int step = 0; step < 6; step++) {
        struct hvd_tensor tensor = on_gpu(names[step % 3], (float *)(void *)memory, COUNT);
        tensor.dtype = HVD_FLOAT8_E4M3;
        memset(data, own[rank], sizeof(data));
        gpu_memory_copy(memory, data, sizeof(data));
        if (step % 3 < 2)
            must(hvd_allreduce(&tensor, step % 3 == 0 ? HVD_SUM : HVD_AVERAGE, NULL), names[step % 3]);
        else
            must(hvd_broadcast(&tensor, 2, NULL), names[step % 3]);
        gpu_memory_copy(data, memory, sizeof(data));
        for (int i = 0; i < COUNT; i++)
            if (data[i] != expected[step % 3])
                ranks_fail("%s: element %d is 0x%x", names[step % 3], i, (unsigned)data[i]);
    }
    gpu_memory_free(memory);
}

/* A share of even rows and of uneven ones, onto the input and, on the first rank alone, elsewhere. */
static void share(void)
{
    float *memory = (float *)(void *)gpu_memory_new(2 * COUNT * sizeof(float));
    for (int step = 0; step < 8; step++) {
        char name[32];
        float data[COUNT];
        int64_t rows = step / 2 % 2 == 0 ? size * 5 : size * 5 + 1;
        snprintf(name, sizeof(name), "share %d", step % 4);
        struct hvd_tensor tensor = on_gpu(name, memory, rows);
        if (step % 2 == 1 && rank == 0)
            tensor.output = memory + COUNT;
        for (int i = 0; i < rows; i++)
            data[i] = (float)(i + rank);
        gpu_memory_copy(memory, data, (size_t)rows * sizeof(float));
        must(hvd_reducescatter(&tensor, HVD_SUM, NULL), name);
        int64_t own = hvd_share_rows(rows, rank, size);
        int64_t first = 0;
        for (int before = 0; before < rank; before++)
            first += hvd_share_rows(rows, before, size);
        gpu_memory_copy(data, tensor.output, (size_t)own * sizeof(float));
        for (int64_t i = 0; i < own; i++)
            if (data[i] != (float)(size * (first + i) + size * (size - 1) / 2))
                ranks_fail("%s: row %d is %g", name, (int)i, (double)data[i]);
    }
    gpu_memory_free((char *)memory);
}

/* Ranks 0 and 2 add up, if this rank is one of them. */
static void sum_in_set(hvd_set set, float *memory)
{
    struct hvd_options options = HVD_OPTIONS_INIT;
    struct hvd_tensor tensor = on_gpu("in the set", memory, COUNT);
    float data[COUNT];
    options.set = set;
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(rank + i);
    if (rank != 0 && rank != 2)
        return;
    gpu_memory_copy(memory, data, sizeof(data));
    must(hvd_allreduce(&tensor, HVD_SUM, &options), "a sum in the set");
    gpu_memory_copy(data, memory, sizeof(data));
    for (int i = 0; i < COUNT; i++)
        if (data[i] != (float)(2 + 2 * i))
            ranks_fail("in the set element %d is %g", i, (double)data[i]);
}

/* Twice a set comes and goes, the first time before the ranks have used their GPUs if [early]. */
static void come_and_go(bool early)
{
    static const int members[] = {0, 2};
    float *memory = (float *)(void *)gpu_memory_new(GROUP * COUNT * sizeof(float));
    for (int i = 0; i < 2; i++) {
        hvd_set set = 0;
        if (!early || i > 0)
            sum_group("all", memory, 1, (float)size);
        must(hvd_set_add(members, 2, &set), "a process set");
        for (int step = 0; step < 3; step++)
            sum_in_set(set, memory);
        sum_group("all", memory, 1, (float)size);
        must(hvd_set_remove(set), "its end");
    }
    gpu_memory_free((char *)memory);
}

static void sets(void)
{
    come_and_go(false);
}

static void early_sets(void)
{
    come_and_go(true);
}

/* Each rank is in two of three sets, and submits their sums and those of all ranks in an order of its own.
 * GPUs that took them in that order would wait for each other in a circle. */
static void circle(void)
{
    hvd_set sets[4] = {HVD_ALL_RANKS};
    float *memory = (float *)(void *)gpu_memory_new(4 * COUNT * sizeof(float));
    float data[4 * COUNT];
    for (int i = 1; i < 4; i++)
        must(hvd_set_add((const int[]){i - 1, i % 3}, 2, &sets[i]), "a process set");
    for (int step = 0; step < 20; step++) {
        hvd_handle handles[4] = {0};
        for (int i = 0; i < 4 * COUNT; i++)
            data[i] = 1;
        gpu_memory_copy(memory, data, sizeof(data));
        for (int i = 0; i < 4; i++) {
            int set = (i + rank + step) % 4;
            struct hvd_options options = HVD_OPTIONS_INIT;
            struct hvd_tensor tensor = on_gpu("circle", memory + (ptrdiff_t)set * COUNT, COUNT);
            options.set = sets[set];
            if (hvd_set_rank(sets[set]) >= 0)
                must(hvd_allreduce_async(&tensor, HVD_SUM, &options, NULL, NULL, &handles[set]), "a sum");
        }
        for (int set = 0; set < 4; set++)
            if (handles[set] != 0)
                must(hvd_wait(handles[set]), "its end");
        gpu_memory_copy(data, memory, sizeof(data));
        for (int i = 0; i < 4 * COUNT; i++)
            if (handles[i / COUNT] != 0 && data[i] != (i < COUNT ? 3 : 2))
                ranks_fail("step %d, set %d: element %d is %g", step, i / COUNT, i % COUNT, (double)data[i]);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

/* NCCL does not give the id by which ranks find each other before rank 0 has made the file. */
static void gate(void)
{
    const char *path = getenv("HVD_DOUBLE_NCCL_GATE");
    hvd_handle handle = 0;
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    struct hvd_tensor tensor = on_gpu("behind the gate", memory, COUNT);
    must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "a sum");
    must(hvd_barrier(HVD_ALL_RANKS), "a barrier meanwhile");
    if (rank == 0) {
        FILE *file = path != NULL ? fopen(path, "we") : NULL;
        if (file == NULL)
            ranks_fail("HVD_DOUBLE_NCCL_GATE names no file that can be made");
        fclose(file);
    }
    must(hvd_wait(handle), "its end");
    gpu_memory_free((char *)memory);
}

/* Nobody makes that file, and HVD_HANG_ABORT ends the job: hvd_shutdown does not wait for NCCL. */
static void shut_gate(void)
{
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    struct hvd_tensor tensor = on_gpu("behind the gate", memory, COUNT);
    signal(SIGTERM, SIG_IGN); /* the other rank may leave first; hvdrun then waits for 5 s */
    must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_TIMEOUT, "a sum");
    hvd_shutdown();
    printf("rank %d has left\n", rank);
    exit(3);
}

static enum hvd_status sum(const char *name, float *memory)
{
    struct hvd_tensor tensor = on_gpu(name, memory, COUNT);
    return hvd_allreduce(&tensor, HVD_SUM, NULL);
}

/* The last rank dies while the GPUs of the others wait for it. */
static void lost(void)
{
    char name[40];
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    must(sum("all", memory), "the sum of all");
    must_or_lose(hvd_barrier(HVD_ALL_RANKS), "that all have it");
    if (rank == size - 1)
        raise(SIGKILL);
    must_be(sum("rest", memory), HVD_ERR_RANK_LOST, "the sum of the rest");
    snprintf(name, sizeof(name), "rank %d", size - 1);
    must_say(name, "the sum of the rest");
    leave_failed();
}

/* The last rank stands still, and HVD_HANG_ABORT ends the job. */
static void stopped(void)
{
    char name[60];
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    must(sum("all", memory), "the sum of all");
    must(hvd_barrier(HVD_ALL_RANKS), "that all have it");
    snprintf(name, sizeof(name), "rank %d (", size - 1);
    struct hvd_tensor tensor = on_gpu("rest", memory, COUNT);
    hvd_handle handle = 0;
    if (rank == size - 1)
        gpu_memory_hold();
    must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "the sum of the rest");
    must(hvd_barrier(HVD_ALL_RANKS), "that all have submitted it");
    if (rank == size - 1)
        raise(SIGSTOP);
    must_be(hvd_wait(handle), HVD_ERR_TIMEOUT, "the sum of the rest");
    must_say(name, "the sum of the rest");
    must_say("does not answer", "the sum of the rest");
    leave_failed();
}

/* HVD_DOUBLE_NCCL_HANG made the GPUs hang, or their connecting, and HVD_HANG_ABORT ends the job. */
static void hang(void)
{
    enum hvd_status status = HVD_OK;
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    for (int step = 0; step < 10 && status == HVD_OK; step++)
        status = sum("w", memory);
    must_be(status, HVD_ERR_TIMEOUT, "a sum that hangs");
    must_say("hang-abort: in allreduce \"w\", which has not moved for", "a sum that hangs");
    must_say("and all ranks answer", "a sum that hangs");
    leave_failed();
}

/* The program keeps the last rank's GPU at work, for longer than HVD_HANG_ABORT. */
static void busy(void)
{
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    must(sum("all", memory), "the sum of all");
    struct hvd_tensor tensor = on_gpu("late", memory, COUNT);
    hvd_handle handle = 0;
    if (rank == size - 1)
        gpu_memory_hold();
    must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "the sum that waits for a GPU");
    if (rank == size - 1)
        nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 600000000}, NULL);
    gpu_memory_release();
    must(hvd_wait(handle), "the sum that waited for a GPU");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

/* As "lost", with process sets that are idle. The members that are left do not wait for the one that is gone,
 * set by set. */
static void lost_sets(void)
{
    hvd_set sets[4];
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    struct hvd_options options = HVD_OPTIONS_INIT;
    struct hvd_tensor tensor = on_gpu("all", memory, COUNT);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "the sum of all");
    for (int i = 0; i < 4; i++) { /* 0 and 2, 1 and 2, 0 and 2 and 3, 1 and 2 and 3 */
        const int ranks[] = {i % 2, 2, 3};
        must(hvd_set_add(ranks, 2 + i / 2, &sets[i]), "a process set");
        options.set = sets[i];
        if (hvd_set_rank(sets[i]) >= 0)
            must(hvd_allreduce(&tensor, HVD_SUM, &options), "its sum");
    }
    signal(SIGTERM, SIG_IGN); /* hvdrun waits for 5 s after it */
    must_or_lose(hvd_barrier(HVD_ALL_RANKS), "that all have it");
    if (rank == 2)
        raise(SIGKILL);
    must_be(sum("rest", memory), HVD_ERR_RANK_LOST, "the sum of the rest");
    hvd_shutdown();
    printf("rank %d has left\n", rank);
    exit(3);
}

/* For hvd_result. */
static void *given_memory(int64_t bytes, void *arg)
{
    (void)bytes;
    return arg;
}

/* A step of training: fused sums, an average alone, and a gathering, each of which the stream waits for. */
static void train_step(float *memory)
{
    hvd_handle handles[3] = {0};
    struct hvd_tensor fused[] = {on_gpu("a", memory, COUNT), on_gpu("b", memory + COUNT, 7)};
    struct hvd_tensor alone = on_gpu("c", memory + 2L * COUNT, COUNT);
    struct hvd_tensor rows = on_gpu("d", memory + 3L * COUNT, COUNT);
    struct hvd_result result = {.allocate = given_memory, .arg = memory + 4L * COUNT};
    rows.output = NULL;
    must(hvd_grouped_allreduce_async(fused, 2, HVD_SUM, NULL, NULL, NULL, &handles[0]), "fused sums");
    must(hvd_allreduce_async(&alone, HVD_AVERAGE, NULL, NULL, NULL, &handles[1]), "an average");
    must(hvd_allgather_async(&rows, &result, NULL, NULL, NULL, &handles[2]), "a gathering");
    for (int i = 0; i < 3; i++)
        must(hvd_wait_on_stream(handles[i], NULL), "its launch");
}

/* From the third step on the host makes no call that waits for the GPU. */
static void steady(void)
{
    float *memory = (float *)(void *)gpu_memory_new((4 + (size_t)size) * COUNT * sizeof(float));
    train_step(memory);
    train_step(memory);
    must(hvd_barrier(HVD_ALL_RANKS), "that all are steady");
    int waits = gpu_memory_waits();
    if (waits < 0)
        ranks_fail("only the double of libcuda counts calls that wait");
    for (int i = 0; i < 20; i++)
        train_step(memory);
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    waits = gpu_memory_waits() - waits;
    if (waits != 0)
        ranks_fail("the host has made %d calls that wait for the GPU", waits);
    gpu_memory_free((char *)memory);
}

/* Operations are launched while the GPU stands still. */
static void ahead(void)
{
    float *memory = (float *)(void *)gpu_memory_new((4 + (size_t)size) * COUNT * sizeof(float));
    train_step(memory);
    gpu_memory_hold();
    for (int i = 0; i < 5; i++)
        train_step(memory);
    gpu_memory_release();
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

/* A stream that is captured is refused, and what other streams do meanwhile does not spoil the capture. */
static void capture(void)
{
    struct hvd_options options = HVD_OPTIONS_INIT;
    hvd_handle handle = 0;
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    struct hvd_tensor tensor = on_gpu("w", memory, COUNT);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum before");
    options.stream = gpu_memory_stream();
    gpu_memory_capture(options.stream, false);
    must_be(hvd_allreduce_async(&tensor, HVD_SUM, &options, NULL, NULL, &handle), HVD_ERR_STATE,
            "a captured sum");
    must_say("allreduce \"w\": its stream is captured into a graph", "a captured sum");
    must_say("make it persistent (hvd_allreduce_init)", "a captured sum");
    must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "a sum beside the capture");
    must_be(hvd_wait_on_stream(handle, options.stream), HVD_ERR_STATE, "a wait in the capture");
    must_say("captured into a graph", "a wait in the capture");
    must(hvd_wait_on_stream(handle, NULL), "a wait beside the capture");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_discard(gpu_memory_end_capture(options.stream));
    gpu_memory_end_stream(options.stream);
    gpu_memory_free((char *)memory);
}

#define MANY 12

/* Element [at] of tensor [i] at [round] on rank [from]. */
static float element(int i, int64_t at, int round, int from)
{
    return (float)((i * 31 + at * 7 + round * 5) % 97 + from);
}

/* Many batches of odd sizes, one behind the other. */
static void many(void)
{
    static const int64_t counts[MANY] = {1, 70001, 3, 4099, 33333, 2, 50021, 17, 9973, 1, 60013, 5};
    char names[MANY][16];
    float *memory[MANY];
    float *host = malloc(70001 * sizeof(*host));
    if (host == NULL)
        ranks_fail("no memory");
    for (int i = 0; i < MANY; i++)
        memory[i] = (float *)(void *)gpu_memory_new((size_t)counts[i] * sizeof(float));
    for (int round = 0; round < 6; round++) {
        hvd_handle handles[MANY] = {0};
        for (int i = 0; i < MANY; i++) {
            for (int64_t at = 0; at < counts[i]; at++)
                host[at] = element(i, at, round, rank);
            gpu_memory_copy(memory[i], host, (size_t)counts[i] * sizeof(*host));
        }
        for (int i = 0; i < MANY; i++) {
            snprintf(names[i], sizeof(names[i]), "many.%d", i);
            struct hvd_tensor tensor = on_gpu(names[i], memory[i], counts[i]);
            must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handles[i]), "one of many sums");
        }
        for (int i = 0; i < MANY; i++)
            must(hvd_wait(handles[i]), "one of many sums");
        for (int i = 0; i < MANY; i++) {
            gpu_memory_copy(host, memory[i], (size_t)counts[i] * sizeof(*host));
            for (int64_t at = 0; at < counts[i]; at++) {
                float expected = element(i, at, round, 0) * (float)size + (float)(size * (size - 1) / 2);
                if (host[at] != expected)
                    ranks_fail("round %d: element %lld of %s is %g, expected %g", round, (long long)at,
                               names[i], (double)host[at], (double)expected);
            }
        }
    }
    for (int i = 0; i < MANY; i++)
        gpu_memory_free((char *)memory[i]);
    free(host);
}

static int64_t start_of(int member) /* where the rows of a member begin that has [member] + 1 */
{
    return (int64_t)member * (member + 1) / 2;
}

static void expect_rows(const char *what, const float *memory, int64_t count, float first)
{
    float *rows = malloc((size_t)count * sizeof(*rows));
    if (rows == NULL)
        ranks_fail("no memory");
    gpu_memory_copy(rows, memory, (size_t)count * sizeof(*rows));
    for (int64_t i = 0; i < count; i++)
        if (rows[i] != first + (float)i)
            ranks_fail("%s: element %lld is %g, expected %g", what, (long long)i, (double)rows[i],
                       (double)(first + (float)i));
    free(rows);
}

/* Nothing is reduced: a broadcast in place and apart, then ranks gather and exchange rows, rank r r + 1 times
 * as many as rank 0. */
static void moves(void)
{
    float *in = (float *)(void *)gpu_memory_new((size_t)size * (size_t)size * COUNT * sizeof(float));
    float *out = (float *)(void *)gpu_memory_new((size_t)size * (size_t)size * COUNT * sizeof(float));
    float *host = malloc((size_t)size * (size_t)size * COUNT * sizeof(float));
    int64_t rows = (int64_t)(rank + 1) * COUNT;
    int64_t splits[64];
    if (host == NULL || size > 64)
        ranks_fail("no memory, or too many ranks");
    for (int step = 0; step < 4; step++) {
        struct hvd_result result = {.allocate = given_memory, .arg = out};
        struct hvd_tensor tensor = on_gpu("broadcast", in, COUNT);
        tensor.output = step % 2 == 0 ? in : out;
        for (int64_t i = 0; i < COUNT; i++)
            host[i] = (float)(rank * 100 + step + i);
        gpu_memory_copy(in, host, COUNT * sizeof(float));
        must(hvd_broadcast(&tensor, size - 1, NULL), "a broadcast");
        expect_rows("broadcast", tensor.output, COUNT, (float)((size - 1) * 100 + step));
        for (int64_t i = 0; i < rows; i++) /* all rows count on through the ranks */
            host[i] = (float)(start_of(rank) * COUNT + i + step);
        gpu_memory_copy(in, host, (size_t)rows * sizeof(float));
        tensor = on_gpu("allgather", in, rows);
        tensor.output = NULL;
        must(hvd_allgather(&tensor, &result, NULL), "an allgather");
        expect_rows("allgather", out, start_of(size) * COUNT, (float)step);
        for (int to = 0; to < size; to++) { /* a receiver's rows count on through the senders */
            splits[to] = rows;
            for (int64_t i = 0; i < rows; i++)
                host[to * rows + i] = (float)(to * 7 + start_of(rank) * COUNT + i);
        }
        gpu_memory_copy(in, host, (size_t)(size * rows) * sizeof(float));
        tensor = on_gpu("alltoall", in, size * rows);
        tensor.output = NULL;
        must(hvd_alltoall(&tensor, splits, &result, NULL), "an alltoall");
        expect_rows("alltoall", out, start_of(size) * COUNT, (float)(rank * 7));
    }
    gpu_memory_free((char *)in);
    gpu_memory_free((char *)out);
    free(host);
}

/* HVD_DOUBLE_NCCL_FAIL made NCCL fail. */
static void broken(void)
{
    enum hvd_status status = HVD_OK;
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    for (int step = 0; step < 10 && status == HVD_OK; step++)
        status = sum("w", memory);
    must_be(status, HVD_ERR_SYSTEM, "a sum with a broken NCCL");
    must_say("NCCL: unhandled cuda error", "a sum with a broken NCCL");
    leave_failed();
}

/* NCCL fails once, on some rank. After hvd_shutdown all ranks may begin anew: the communicators of the set of
 * all ranks and of another one are made again, and carry. */
static void again(void)
{
    hvd_set set = 0;
    enum hvd_status status = HVD_OK;
    float *memory = (float *)(void *)gpu_memory_new(GROUP * COUNT * sizeof(float));
    for (int step = 0; step < 10 && status == HVD_OK; step++)
        status = sum("w", memory);
    must_be(status, HVD_ERR_SYSTEM, "a sum with a broken NCCL");
    must_be(sum("w", memory), HVD_ERR_SYSTEM, "the sum after it");
    hvd_shutdown();
    must(hvd_init(), "a second hvd_init");
    sum_group("all", memory, 1, (float)size);
    must(hvd_set_add((const int[]){0, 2}, 2, &set), "a process set");
    sum_in_set(set, memory);
    sum_group("all", memory, 1, (float)size);
    gpu_memory_free((char *)memory);
}

static const struct ranks_case cases[] = {
    {"streams", streams, false},
    {"gathers", gathers, false},
    {"mismatch", mismatch, false},
    {"join", join, false},
    {"fused", fused, false},
    {"sets", sets, false},
    {"early sets", early_sets, false},
    {"grouped", grouped, false},
    {"circle", circle, false},
    {"average", average, false},
    {"float8", float8, false},
    {"share", share, false},
    {"gate", gate, false},
    {"shut gate", shut_gate, false},
    {"refused", refused, false},
    {"lost", lost, false},
    {"lost sets", lost_sets, false},
    {"again", again, false},
    {"stopped", stopped, false},
    {"hang", hang, false},
    {"busy", busy, false},
    {"steady", steady, false},
    {"ahead", ahead, false},
    {"capture", capture, false},
    {"many", many, false},
    {"moves", moves, false},
    {"broken", broken, false},
};

int main(int argc, char **argv)
{
    return gpu_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
