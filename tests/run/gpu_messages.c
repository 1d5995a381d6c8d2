/* gpu_messages.c: tests one promise of libhvd about messages of tensors on GPUs, run by every rank of a job:
 * `gpu_messages CASE`. Exits 0 if it held. */
#include <signal.h>
#include <stdlib.h>

#include "gpu_tensor.h"

/* Elements of a message that NCCL carries where it can. */
#define LARGE 20000

static float element(int64_t at, int from, int step)
{
    return (float)(at % 1013 + from * 3 + step);
}

static float *filled(int64_t count, int from, int step)
{
    float *data = malloc((size_t)count * sizeof(*data));
    for (int64_t i = 0; i < count; i++)
        data[i] = element(i, from, step);
    return data;
}

static void check(const float *data, int64_t count, int from, int step)
{
    for (int64_t i = 0; i < count; i++)
        if (data[i] != element(i, from, step))
            ranks_fail("of %lld elements from rank %d, number %lld is %g in step %d", (long long)count, from,
                       (long long)i, (double)data[i], step);
}

static void check_on_gpu(const float *memory, int64_t count, int from, int step)
{
    float *data = malloc((size_t)count * sizeof(*data));
    gpu_memory_copy(data, memory, (size_t)count * sizeof(*data));
    check(data, count, from, step);
    free(data);
}

/* Memory on the GPU with the elements of this rank. */
static float *filled_on_gpu(int64_t count, int step)
{
    float *memory = (float *)(void *)gpu_memory_new((size_t)count * sizeof(float));
    float *data = filled(count, rank, step);
    gpu_memory_copy(memory, data, (size_t)count * sizeof(*data));
    free(data);
    return memory;
}

static struct hvd_message message_of(enum hvd_direction direction, float *memory, int64_t count, int other)
{
    struct hvd_message message = {
        .direction = direction, .rank = other, .tag = 7, .tensor = on_gpu("", memory, count)};
    return message;
}

/* All send to the next rank and receive from the one before, from few bytes to many. */
static void ring(void)
{
    static const int64_t counts[] = {0, 1, COUNT, 300000, 2000003};
    int next = (rank + 1) % size;
    int before = (rank + size - 1) % size;
    for (int step = 0; step < 5; step++) {
        int64_t count = counts[step];
        float *from = filled_on_gpu(count + 1, step);
        float *to = (float *)(void *)gpu_memory_new((size_t)(count + 1) * sizeof(float));
        int source = -1;
        struct hvd_message messages[] = {message_of(HVD_SEND, from, count, next),
                                         message_of(HVD_RECV, to, count, step % 2 ? before : HVD_ANY_SOURCE)};
        messages[1].sourcep = &source;
        must(hvd_exchange(messages, 2, NULL), "a ring");
        if (source != before)
            ranks_fail("it came from rank %d", source);
        check_on_gpu(to, count, before, step);
        must(hvd_barrier(HVD_ALL_RANKS), "the end of the step");
        gpu_memory_free((char *)from);
        gpu_memory_free((char *)to);
    }
}

/* One end is on the GPU, and the other in host memory. */
static void mixed(void)
{
    int64_t count = 40000;
    float *memory = filled_on_gpu(count, 0);
    float *data = filled(count, rank, 1);
    struct hvd_tensor there = on_gpu("", memory, count);
    struct hvd_tensor here = hvd_vector("", data, count, HVD_FLOAT32);
    if (rank == 0) {
        must(hvd_send(&there, 1, 1, NULL), "from the GPU");
        must(hvd_send(&here, 1, 2, NULL), "from the host");
    } else if (rank == 1) {
        must(hvd_recv(&here, 0, 1, NULL, NULL), "to the host");
        must(hvd_recv(&there, 0, 2, NULL, NULL), "to the GPU");
        check(data, count, 0, 0);
        check_on_gpu(memory, count, 0, 1);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    free(data);
    gpu_memory_free((char *)memory);
}

/* Messages with one tag come in the order in which they were sent, from wherever. */
static void order(void)
{
    float *memory = filled_on_gpu(500000, 0);
    float data[COUNT] = {0};
    struct hvd_tensor large = on_gpu("", memory, 500000);
    struct hvd_tensor one = on_gpu("", memory, 1);
    struct hvd_tensor here = hvd_vector("", data, COUNT, HVD_FLOAT32);
    hvd_handle handles[3];
    if (rank == 0) {
        must(hvd_send_async(&large, 1, 5, NULL, NULL, NULL, &handles[0]), "the first");
        must(hvd_send_async(&here, 1, 5, NULL, NULL, NULL, &handles[1]), "the second");
        must(hvd_send_async(&one, 1, 5, NULL, NULL, NULL, &handles[2]), "the third");
        for (int i = 2; i >= 0; i--)
            must(hvd_wait(handles[i]), "a send");
    } else if (rank == 1) { /* another size would be an error */
        must(hvd_recv(&large, HVD_ANY_SOURCE, 5, NULL, NULL), "the first");
        must(hvd_recv(&here, HVD_ANY_SOURCE, 5, NULL, NULL), "the second");
        must(hvd_recv(&one, HVD_ANY_SOURCE, 5, NULL, NULL), "the third");
        check_on_gpu(memory, 1, 0, 0);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

/* A send waits for the stream of its call; others, and collectives, do not wait for it. */
static void late_of(int64_t count)
{
    float *memory = filled_on_gpu(count, 0);
    float sum = 1;
    float word = (float)rank;
    struct hvd_tensor there = on_gpu("", memory, count);
    struct hvd_tensor here = hvd_vector("", &word, 1, HVD_FLOAT32);
    struct hvd_tensor all = hvd_vector("all", &sum, 1, HVD_FLOAT32);
    hvd_handle handle = 0;
    if (rank == 0) {
        gpu_memory_hold();
        must(hvd_send_async(&there, 1, 1, NULL, NULL, NULL, &handle), "what waits");
        must(hvd_send(&here, 1, 2, NULL), "what does not");
        must(hvd_recv(&here, 1, 3, NULL, NULL), "the answer");
        must_be(hvd_test(handle), HVD_IN_PROGRESS, "what waits");
    } else if (rank == 1) {
        must(hvd_recv(&here, 0, 2, NULL, NULL), "what does not wait");
        must(hvd_send(&here, 0, 3, NULL), "the answer");
    }
    must(hvd_allreduce(&all, HVD_SUM, NULL), "a sum");
    if (rank == 0) {
        gpu_memory_release();
        must(hvd_wait_on_stream(handle, NULL), "what has waited");
    } else if (rank == 1) {
        must(hvd_recv(&there, 0, 1, NULL, NULL), "what has waited");
        check_on_gpu(memory, count, 0, 0);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

static void late(void)
{
    late_of(COUNT);
    late_of(LARGE);
}

/* A receive waits for the stream of its call; a later one from the same rank does not wait for it. */
static void behind(void)
{
    float *first = filled_on_gpu(LARGE, 0);
    float *second = filled_on_gpu(LARGE, 1);
    struct hvd_tensor waits = on_gpu("", first, LARGE);
    struct hvd_tensor goes = on_gpu("", second, LARGE);
    struct hvd_options options = HVD_OPTIONS_INIT;
    hvd_handle handle = 0;
    options.stream = gpu_memory_stream();
    if (rank == 0) {
        must(hvd_send_async(&waits, 1, 1, NULL, NULL, NULL, &handle), "what waits");
        must(hvd_send(&goes, 1, 2, NULL), "what does not");
        must(hvd_wait(handle), "what waits");
    } else if (rank == 1) {
        gpu_memory_hold();
        must(hvd_recv_async(&waits, 0, 1, NULL, NULL, NULL, NULL, &handle), "what waits");
        must(hvd_recv(&goes, 0, 2, &options, NULL), "what does not");
        must_be(hvd_test(handle), HVD_IN_PROGRESS, "what waits");
        gpu_memory_release();
        must(hvd_wait(handle), "what waits");
        check_on_gpu(first, LARGE, 0, 0);
        check_on_gpu(second, LARGE, 0, 1);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_end_stream(options.stream);
    gpu_memory_free((char *)first);
    gpu_memory_free((char *)second);
}

/* All send to all at once, more than a rank has queues for. */
static void crowd(void)
{
    enum { EACH = 3, PEERS = 7 };
    struct hvd_message messages[2 * EACH * PEERS] = {{0}};
    float *from[EACH * PEERS], *to[EACH * PEERS];
    int count = EACH * (size - 1);
    if (size > PEERS + 1)
        ranks_fail("this is for at most %d ranks", PEERS + 1);
    for (int i = 0; i < count; i++) {
        int peer = (rank + 1 + i / EACH) % size;
        from[i] = filled_on_gpu(LARGE + i, i % EACH);
        to[i] = (float *)(void *)gpu_memory_new((size_t)LARGE * sizeof(float));
        messages[i] = message_of(HVD_SEND, from[i], LARGE, peer);
        messages[count + i] = message_of(HVD_RECV, to[i], LARGE, peer);
        messages[i].tag = messages[count + i].tag = i % EACH;
    }
    must(hvd_exchange(messages, 2 * count, NULL), "all with all");
    for (int i = 0; i < count; i++)
        check_on_gpu(to[i], LARGE, (rank + 1 + i / EACH) % size, i % EACH);
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    for (int i = 0; i < count; i++) {
        gpu_memory_free((char *)from[i]);
        gpu_memory_free((char *)to[i]);
    }
}

/* Many in flight at once, in both directions, whose handles are waited for last first. */
static void many(void)
{
    enum { MESSAGES = 100 };
    int other = rank ^ 1;
    float *from[MESSAGES], *to[MESSAGES];
    hvd_handle handles[2 * MESSAGES];
    for (int i = 0; other < size && i < MESSAGES; i++) {
        struct hvd_tensor sent = on_gpu("", from[i] = filled_on_gpu(i + 1, i), i + 1);
        to[i] = (float *)(void *)gpu_memory_new((size_t)(i + 1) * sizeof(float));
        struct hvd_tensor received = on_gpu("", to[i], i + 1);
        must(hvd_send_async(&sent, other, i % 3, NULL, NULL, NULL, &handles[2 * i]), "a send");
        must(hvd_recv_async(&received, other, i % 3, NULL, NULL, NULL, NULL, &handles[2 * i + 1]),
             "a receive");
    }
    for (int i = 2 * MESSAGES - 1; other < size && i >= 0; i--)
        must(hvd_wait(handles[i]), "a message");
    for (int i = 0; other < size && i < MESSAGES; i++) {
        check_on_gpu(to[i], i + 1, other, i);
        gpu_memory_free((char *)from[i]);
        gpu_memory_free((char *)to[i]);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
}

/* A stream that is captured is refused, and so is a message of another size; its sender is done by then. */
static void refused(void)
{
    float *memory = filled_on_gpu(COUNT, 0);
    struct hvd_tensor tensor = on_gpu("", memory, COUNT);
    struct hvd_tensor less = on_gpu("", memory, COUNT - 1);
    struct hvd_options options = HVD_OPTIONS_INIT;
    options.stream = gpu_memory_stream();
    gpu_memory_capture(options.stream, true);
    must_be(hvd_send(&tensor, (rank + 1) % size, 1, &options), HVD_ERR_STATE, "a captured stream");
    gpu_memory_drop_capture(options.stream);
    gpu_memory_end_stream(options.stream);
    if (rank == 0)
        must(hvd_send(&tensor, 1, 1, NULL), "a send to one that wants less");
    else if (rank == 1)
        must_be(hvd_recv(&less, 0, 1, NULL, NULL), HVD_ERR_MISMATCH, "a receive of more");
    must(hvd_barrier(HVD_ALL_RANKS), "the end");
    gpu_memory_free((char *)memory);
}

/* The last rank dies when a part of a message has come. */
static void lost(void)
{
    static const int64_t count = 8000000;
    float first = 0;
    float *memory = filled_on_gpu(count, 0);
    struct hvd_tensor tensor = on_gpu("", memory, count);
    hvd_handle handle = 0;
    if (rank == size - 1) {
        gpu_memory_copy(memory, &(float){-1}, sizeof(float));
        must(hvd_recv_async(&tensor, 0, 1, NULL, NULL, NULL, NULL, &handle), "what begins to come");
        while (first != element(0, 0, 0)) {
            must_be(hvd_test(handle), HVD_IN_PROGRESS, "what begins to come");
            gpu_memory_copy(&first, memory, sizeof(first));
        }
        raise(SIGKILL);
    }
    must_be(rank == 0 ? hvd_send(&tensor, size - 1, 1, NULL) : hvd_recv(&tensor, size - 1, 1, NULL, NULL),
            HVD_ERR_RANK_LOST, "a message");
    must_say("rank 2", "a message");
    leave_failed();
}

/* A send whose stream stands still, and HVD_STALL_ABORT ends the job. */
static void stands(void)
{
    float *memory = filled_on_gpu(COUNT, 0);
    struct hvd_tensor tensor = on_gpu("", memory, COUNT);
    gpu_memory_hold();
    must_be(hvd_send(&tensor, rank, 1, NULL), HVD_ERR_TIMEOUT, "a send whose stream stands still");
    must_say("in send of float32[1000] to rank 0 with tag 1 for", "what it waits for");
    must_say(" waits for its own GPU: the stream of the call has not come so far", "what it waits for");
    gpu_memory_release();
    leave_failed();
}

static const struct ranks_case cases[] = {
    {"ring", ring, false},     {"mixed", mixed, false},     {"order", order, false},
    {"late", late, false},     {"behind", behind, false},   {"crowd", crowd, false},
    {"many", many, false},     {"refused", refused, false}, {"lost", lost, false},
    {"stands", stands, false},
};

int main(int argc, char **argv)
{
    return gpu_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
