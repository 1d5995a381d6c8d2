/* gpu_large.c: tests one promise of libhvd about tensors on GPUs that are cut on their way through the host,
 * wait for the work of the program there, or make several batches, run by every rank of a job: `gpu_large
 * CASE`. Exits 0 if it held. */
#include <signal.h>
#include <stdlib.h>

#include "gpu_tensor.h"

/* Element [at] on rank [from]. */
static float element(int64_t at, int from)
{
    return (float)(at * 7 % 97 + from);
}

/* More than three times what fits into a batch through the host, and no multiple of anything. */
#define LARGE (INT64_C(3) * (2 << 20) / 4 + 12345)

/* Sums of three tensors of a group, of which the first is small and the second large; rank 0 alone has those
 * of ranks that have joined. */
static void sum_large(const char *name, char *memory, float *host, bool alone)
{
    static const int64_t counts[] = {17, LARGE, 4099};
    char names[3][40];
    float *begin = (float *)(void *)memory;
    struct hvd_tensor tensors[3];
    for (int64_t i = 0; i < LARGE + 5000; i++)
        host[i] = element(i, rank);
    gpu_memory_copy(memory, host, (size_t)(LARGE + 5000) * sizeof(float));
    for (int i = 0; i < 3; begin += counts[i++]) {
        snprintf(names[i], sizeof(names[i]), "%s.%d", name, i);
        tensors[i] = on_gpu(names[i], begin, counts[i]);
    }
    must(hvd_grouped_allreduce(tensors, 3, HVD_SUM, NULL), name);
    gpu_memory_copy(host, memory, (size_t)(LARGE + 5000) * sizeof(float));
    for (int64_t i = 0; i < 17 + LARGE + 4099; i++) {
        float expected = alone ? element(i, 0) : element(i, 0) * (float)size + (float)(size * (size - 1) / 2);
        if (host[i] != expected)
            ranks_fail("%s: element %lld is %g, expected %g", name, (long long)i, (double)host[i],
                       (double)expected);
    }
}

static void broadcast_large(char *memory, float *host)
{
    struct hvd_tensor tensor = on_gpu("from the last", (float *)(void *)memory, LARGE);
    for (int64_t i = 0; i < LARGE; i++)
        host[i] = element(i + 1, rank);
    gpu_memory_copy(memory, host, (size_t)LARGE * sizeof(float));
    must(hvd_broadcast(&tensor, size - 1, NULL), "a large broadcast");
    gpu_memory_copy(host, memory, (size_t)LARGE * sizeof(float));
    for (int64_t i = 0; i < LARGE; i++)
        if (host[i] != element(i + 1, size - 1))
            ranks_fail("broadcast: element %lld is %g", (long long)i, (double)host[i]);
}

/* Tensors that take several batches, and with ranks that have joined. */
static void sums(void)
{
    char *memory = gpu_memory_new((size_t)(LARGE + 5000) * sizeof(float));
    float *host = malloc((size_t)(LARGE + 5000) * sizeof(*host));
    int last = -1;
    if (host == NULL)
        ranks_fail("no memory");
    for (int step = 0; step < 2; step++)
        sum_large("large", memory, host, false);
    broadcast_large(memory, host);
    if (rank == 0)
        sum_large("with joined", memory, host, true);
    must(hvd_join(HVD_ALL_RANKS, &last), "a join");
    if (last != 0)
        ranks_fail("rank %d joined last", last);
    gpu_memory_free(memory);
    free(host);
}

/* Results go to the GPU though tensors of the next operation wait for what the program does there. */
static void behind(void)
{
    char *memory = gpu_memory_new((size_t)LARGE * sizeof(float));
    float *next = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    struct hvd_tensor first = on_gpu("first", (float *)(void *)memory, LARGE);
    struct hvd_tensor second = on_gpu("second", next, COUNT);
    for (int step = 0; step < 5; step++) {
        hvd_handle handles[2] = {0};
        must(hvd_allreduce_async(&first, HVD_SUM, NULL, NULL, NULL, &handles[0]), "the first sum");
        gpu_memory_hold();
        must(hvd_allreduce_async(&second, HVD_SUM, NULL, NULL, NULL, &handles[1]), "the second sum");
        must(hvd_wait(handles[0]), "the first sum");
        must_be(hvd_test(handles[1]), HVD_IN_PROGRESS, "the second sum");
        gpu_memory_release();
        must(hvd_wait(handles[1]), "the second sum");
    }
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free(memory);
    gpu_memory_free((char *)next);
}

/* The input comes in the program's stream, which stands still until the sum is launched. */
static void late(void)
{
    static float data[COUNT];
    hvd_handle handle = 0;
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    struct hvd_tensor tensor = on_gpu("late", memory, COUNT);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum before");
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(rank + i);
    gpu_memory_hold();
    gpu_memory_copy_in(NULL, memory, data, sizeof(data));
    must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "a sum");
    must(hvd_wait_on_stream(handle, NULL), "its launch");
    gpu_memory_release();
    gpu_memory_copy(data, memory, sizeof(data));
    for (int i = 0; i < COUNT; i++)
        if (data[i] != (float)(size * i + size * (size - 1) / 2))
            ranks_fail("element %d is %g", i, (double)data[i]);
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

/* The last rank dies while large tensors are cut, copied and carried. */
static void lost(void)
{
    enum hvd_status status = HVD_OK;
    char *memory = gpu_memory_new((size_t)LARGE * sizeof(float));
    struct hvd_tensor tensor = on_gpu("large", (float *)(void *)memory, LARGE);
    hvd_handle handle = 0;
    must_or_lose(hvd_allreduce(&tensor, HVD_SUM, NULL), "the sum of all");
    if (rank == size - 1) {
        must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "a sum that it does not see");
        raise(SIGKILL);
    }
    for (int step = 0; step < 2 && status == HVD_OK;
         step++) /* the last rank may have done its share of one */
        status = hvd_allreduce(&tensor, HVD_SUM, NULL);
    must_be(status, HVD_ERR_RANK_LOST, "the sum of the rest");
    gpu_memory_free(memory);
    leave_failed();
}

static void set_elements(float *memory, float value)
{
    float data[COUNT];
    for (int i = 0; i < COUNT; i++)
        data[i] = value;
    gpu_memory_copy(memory, data, sizeof(data));
}

static void expect_gathered(const float *memory, float expected)
{
    float data[COUNT];
    for (int member = 0; member < size; member++) {
        gpu_memory_copy(data, memory + (ptrdiff_t)member * COUNT, sizeof(data));
        for (int i = 0; i < COUNT; i++)
            if (data[i] != expected)
                ranks_fail("element %d of rank %d is %g, expected %g", i, member, (double)data[i],
                           (double)expected);
    }
}

static void *given_memory(int64_t bytes, void *arg)
{
    (void)bytes;
    return arg;
}

#define GATHERS 4

/* Allgathers whose results exceed the fusion size together: several batches of one operation. */
static void several_gathers(void)
{
    struct hvd_tensor tensors[GATHERS];
    struct hvd_result results[GATHERS] = {{0}};
    char names[GATHERS][20];
    float *memory[2 * GATHERS];
    hvd_persistent made = 0;
    for (int i = 0; i < GATHERS; i++) {
        memory[i] = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
        memory[GATHERS + i] = (float *)(void *)gpu_memory_new((size_t)size * COUNT * sizeof(float));
        snprintf(names[i], sizeof(names[i]), "gather.%d", i);
        tensors[i] = on_gpu(names[i], memory[i], COUNT);
        tensors[i].output = NULL;
        results[i] = (struct hvd_result){.allocate = given_memory, .arg = memory[GATHERS + i]};
    }
    must(hvd_allgather_init(tensors, results, GATHERS, NULL, &made), "persistent allgathers");
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < GATHERS; i++)
            set_elements(memory[i], (float)(step + i));
        must(hvd_persistent_start(made, NULL), "a start");
        for (int i = 0; i < GATHERS; i++)
            expect_gathered(results[i].data, (float)(step + i));
    }
    must(hvd_persistent_free(made), "its end");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    for (int i = 0; i < 2 * GATHERS; i++)
        gpu_memory_free((char *)memory[i]);
}

static const struct ranks_case cases[] = {
    {"sums", sums, false},
    {"behind", behind, false},
    {"late", late, false},
    {"lost", lost, false},
    {"several gathers", several_gathers, false},
};

int main(int argc, char **argv)
{
    return gpu_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
