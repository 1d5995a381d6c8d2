/* collectives.c: tests one promise of libhvd, run by every rank of a job: `collectives CASE`. Exits 0 if the
 * promise held; otherwise prints what happened. Cases that provoke an error print its sentence, and the .bats
 * file checks it. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hvd.h>

static int rank, size;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "collectives: rank %d: %s\n", rank, text);
    exit(1);
}

static void must(enum hvd_status status, const char *what)
{
    if (status != HVD_OK)
        fail("%s: %s", what, hvd_error_text());
}

static void must_be(enum hvd_status status, enum hvd_status expected, const char *what)
{
    if (status != expected)
        fail("%s: status %d (%s), expected %d", what, status, hvd_error_text(), expected);
}

/* ---- Values: element [i] of rank [r]'s input, and the results --------------- */

static double value(int r, int64_t i)
{
    return (double)((i * 7919 + r * 104729) % 1000) + (double)r / 3;
}

#define DTYPES 4
static const size_t dtype_size[DTYPES] = {4, 8, 4, 8};

/* Write the value of element [i] of rank [r]'s input to [at]. */
static void put_value(void *at, enum hvd_dtype dtype, int64_t i, int r)
{
    switch (dtype) {
    case HVD_INT32:
        *(int32_t *)at = (int32_t)(value(r, i) - 500);
        break;
    case HVD_INT64:
        *(int64_t *)at = (int64_t)(value(r, i) - 500) * (INT64_C(1) << 33);
        break;
    case HVD_FLOAT32:
        *(float *)at = (float)value(r, i);
        break;
    case HVD_FLOAT64:
        *(double *)at = value(r, i);
        break;
    default: /* the other types are tested elsewhere */
        break;
    }
}

#define SUM_OF(type)                                                      \
    do {                                                                  \
        type sum = 0;                                                     \
        type one = 0;                                                     \
        for (int r = 0; r < size; r++) {                                  \
            put_value(&one, dtype, i, r);                                 \
            sum = r == 0 ? one : (type)(sum + one);                       \
        }                                                                 \
        if (op == HVD_AVERAGE)                                            \
            sum = (type)(sum / (type)size);                               \
        return memcmp(&((const type *)data)[i], &sum, sizeof(type)) == 0; \
    } while (0)

/* Has element [i] exactly the bits that a reduction in the order of ranks gives? */
static int is_reduced(const void *data, enum hvd_dtype dtype, enum hvd_op op, int64_t i)
{
    switch (dtype) {
    case HVD_INT32:
        SUM_OF(int32_t);
    case HVD_INT64:
        SUM_OF(int64_t);
    case HVD_FLOAT32:
        SUM_OF(float);
    case HVD_FLOAT64:
        SUM_OF(double);
    default:
        return 0;
    }
}
#undef SUM_OF

struct buffer {
    char *input, *output;
    int64_t count;
    enum hvd_dtype dtype;
};

static struct buffer make_buffer(int64_t count, enum hvd_dtype dtype, int in_place)
{
    struct buffer buffer = {.count = count, .dtype = dtype};
    buffer.input = calloc((size_t)count + 1, dtype_size[dtype]);
    buffer.output = in_place ? buffer.input : calloc((size_t)count + 1, dtype_size[dtype]);
    for (int64_t i = 0; i < count; i++)
        put_value(buffer.input + i * (int64_t)dtype_size[dtype], dtype, i, rank);
    return buffer;
}

static void free_buffer(struct buffer *buffer)
{
    if (buffer->output != buffer->input)
        free(buffer->output);
    free(buffer->input);
}

static struct hvd_tensor tensor_of(const char *name, const struct buffer *buffer)
{
    struct hvd_tensor tensor = hvd_vector(name, buffer->output, buffer->count, buffer->dtype);
    tensor.input = buffer->input;
    return tensor;
}

static void check_reduced(const struct buffer *buffer, enum hvd_op op, const char *name)
{
    for (int64_t i = 0; i < buffer->count; i++) {
        if (!is_reduced(buffer->output, buffer->dtype, op, i))
            fail("%s: element %lld of %lld (dtype %d, op %d) is wrong", name, (long long)i,
                 (long long)buffer->count, buffer->dtype, op);
    }
    for (int64_t i = 0; buffer->input != buffer->output && i < buffer->count; i++) {
        _Alignas(8) char one[8];
        put_value(one, buffer->dtype, i, rank);
        if (memcmp(one, buffer->input + i * (int64_t)dtype_size[buffer->dtype], dtype_size[buffer->dtype]) !=
            0)
            fail("%s: the input was written", name);
    }
}

/* ---- Cases ------------------------------------------------------------------------------------------- */

static void case_allreduce(void)
{
    static const int64_t counts[] = {0, 1, 2, 7, 1000, 65536, 300001};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (int way = 0; way < DTYPES * 4; way++) {
            enum hvd_op op = way & 1 ? HVD_AVERAGE : HVD_SUM;
            struct buffer buffer = make_buffer(counts[c], (enum hvd_dtype)(way / 4), way & 2);
            struct hvd_tensor tensor = tensor_of("allreduce", &buffer);
            must(hvd_allreduce(&tensor, op, NULL), "hvd_allreduce");
            check_reduced(&buffer, op, "allreduce");
            free_buffer(&buffer);
        }
    }
}

/* Many operations in flight, submitted by each rank in its own order. Each name comes three times, so that
 * operations are negotiated both by name and by number. */
static void case_order(void)
{
    enum { MANY = 300 };
    static struct buffer buffers[MANY];
    static hvd_handle handles[MANY];
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < MANY; k++) {
            int i = (k * 7 + rank * 31) % MANY;
            char name[32];
            buffers[i] = make_buffer((i * 37) % 5000, (enum hvd_dtype)(i % DTYPES), i % 3 == 0);
            snprintf(name, sizeof(name), "layer%d", i);
            struct hvd_tensor tensor = tensor_of(name, &buffers[i]);
            must(hvd_allreduce_async(&tensor, i % 2 ? HVD_SUM : HVD_AVERAGE, NULL, NULL, NULL, &handles[i]),
                 name);
        }
        for (int i = 0; i < MANY; i++) {
            must(hvd_wait(handles[i]), "hvd_wait");
            check_reduced(&buffers[i], i % 2 ? HVD_SUM : HVD_AVERAGE, "order");
            free_buffer(&buffers[i]);
        }
    }
}

static void case_broadcast(void)
{
    enum { MANY = 8 };
    for (int root = 0; root < size; root++) {
        struct buffer buffers[MANY];
        hvd_handle handles[MANY];
        for (int i = 0; i < MANY; i++) {
            char name[32];
            buffers[i] = make_buffer(i * i * 1000, HVD_FLOAT32, i % 2);
            snprintf(name, sizeof(name), "parameter%d", i);
            struct hvd_tensor tensor = tensor_of(name, &buffers[i]);
            must(hvd_broadcast_async(&tensor, root, NULL, NULL, NULL, &handles[i]), name);
        }
        for (int i = 0; i < MANY; i++) {
            must(hvd_wait(handles[i]), "hvd_wait");
            for (int64_t k = 0; k < buffers[i].count; k++) {
                float expected = (float)value(root, k);
                if (memcmp(buffers[i].output + 4 * k, &expected, 4) != 0)
                    fail("broadcast from %d: element %lld of tensor %d is wrong", root, (long long)k, i);
            }
            free_buffer(&buffers[i]);
        }
    }
    float input[3] = {1, 2, 3};
    float output[3] = {0};
    struct hvd_tensor tensor = hvd_vector("elsewhere", output, 3, HVD_FLOAT32);
    tensor.input = rank == 0 ? input : NULL;
    must(hvd_broadcast(&tensor, 0, NULL), "hvd_broadcast without input elsewhere");
    if (output[2] != 3)
        fail("broadcast out of place: %g", (double)output[2]);
}

/* ---- The same names in every step, with different memory, roots and rows ---- */

static void broadcast_again(int step)
{
    static float memory[4][2];
    float *input = memory[step % 2];
    float *output = step % 3 == 0 ? input : memory[2 + step % 2];
    int root = step / 4 % size;
    input[0] = input[1] = (float)(100 * step + rank);
    struct hvd_tensor tensor = hvd_vector("again", output, 2, HVD_FLOAT32);
    tensor.input = rank == root || step % 2 ? input : NULL;
    must(hvd_broadcast(&tensor, root, NULL), "hvd_broadcast again");
    if (output[1] != (float)(100 * step + root))
        fail("broadcast again, step %d: %g", step, (double)output[1]);
}

static int64_t rows_of(int of_rank, int step)
{
    return step < 4 ? 2 : (of_rank + step) % 3;
}

static void gather_again(int step)
{
    int64_t rows[64] = {0};
    float input[4] = {0};
    struct hvd_result result = {.rows = step % 2 ? rows : NULL};
    struct hvd_tensor tensor = {"gather",       input, NULL, HVD_FLOAT32, 2, {rows_of(rank, step), 2},
                                HVD_MEMORY_ANY, 0};
    for (int i = 0; i < 4; i++)
        input[i] = (float)(100 * step + rank);
    must(hvd_allgather(&tensor, &result, NULL), "hvd_allgather again");
    const float *at = result.data;
    for (int member = 0; member < size; member++) {
        int64_t expected = rows_of(member, step);
        if (result.rows != NULL && rows[member] != expected)
            fail("allgather again, step %d: %lld rows of rank %d", step, (long long)rows[member], member);
        for (int64_t i = 0; i < 2 * expected; i++)
            if (*at++ != (float)(100 * step + member))
                fail("allgather again, step %d: a wrong row of rank %d", step, member);
    }
    if (at - (const float *)result.data != 2 * result.row_count)
        fail("allgather again, step %d: %lld rows", step, (long long)result.row_count);
    free(result.data);
}

static void case_again(void)
{
    const struct hvd_tensor wrong = {"gather", NULL, NULL, HVD_FLOAT32, 2, {2, 2}, HVD_MEMORY_ANY, 0};
    for (int step = 0; step < 24; step++) {
        broadcast_again(step);
        gather_again(step);
        /* a refused submission makes only this rank forget the operation */
        if (step % 5 == rank)
            must_be(hvd_allgather(&wrong, &(struct hvd_result){.rows = NULL}, NULL), HVD_ERR_INVALID,
                    "no input");
    }
}

/* Each rank creates a file in the folder before barrier i; after it the files of all ranks exist. */
static void case_barrier(void)
{
    const char *folder = getenv("COLLECTIVES_DIR");
    if (folder == NULL)
        fail("COLLECTIVES_DIR is not set");
    for (int i = 0; i < 20; i++) {
        char path[4096];
        struct stat found;
        snprintf(path, sizeof(path), "%s/%d.%d", folder, i, rank);
        FILE *mark = fopen(path, "w");
        if (mark == NULL)
            fail("%s: %s", path, strerror(errno));
        fclose(mark);
        must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
        for (int r = 0; r < size; r++) {
            snprintf(path, sizeof(path), "%s/%d.%d", folder, i, r);
            if (stat(path, &found) != 0)
                fail("barrier %d: rank %d had not come", i, r);
        }
    }
}

static void expect_mismatch(const struct hvd_tensor *tensor, enum hvd_op op)
{
    must_be(hvd_allreduce(tensor, op, NULL), HVD_ERR_MISMATCH, "a mismatch");
    printf("%s\n", hvd_error_text());
    fflush(stdout);
}

static void case_mismatch(void)
{
    double data[12] = {0};
    int odd = rank == size - 1;
    for (int known = 0; known < 2; known++) {
        struct hvd_tensor tensor = {"w", data, data, HVD_FLOAT32, 2, {2, odd ? 3 : 4}, HVD_MEMORY_ANY, 0};
        expect_mismatch(&tensor, HVD_SUM);
        tensor.shape[1] = 4;
        tensor.dtype = odd ? HVD_FLOAT64 : HVD_FLOAT32;
        expect_mismatch(&tensor, HVD_SUM);
        tensor.dtype = HVD_FLOAT32;
        expect_mismatch(&tensor, odd ? HVD_AVERAGE : HVD_SUM);
        must_be(hvd_broadcast(&tensor, odd ? 1 : 0, NULL), HVD_ERR_MISMATCH, "roots that differ");
        must_be(odd ? hvd_broadcast(&tensor, 0, NULL) : hvd_allreduce(&tensor, HVD_SUM, NULL),
                HVD_ERR_MISMATCH, "kinds that differ");
        printf("%s\n", hvd_error_text());
        /* the name can be used again */
        must(hvd_allreduce(&tensor, HVD_SUM, NULL), "after the mismatches");
    }
}

struct callback_chain {
    struct hvd_tensor tensor;
    _Atomic int left, wrong_state;
};

static void next_in_chain(enum hvd_status status, void *arg)
{
    struct callback_chain *chain = arg;
    must(status, "the status that a callback gets");
    if (hvd_barrier(HVD_ALL_RANKS) != HVD_ERR_STATE || hvd_wait(1) != HVD_ERR_STATE ||
        hvd_shutdown() != HVD_ERR_STATE)
        chain->wrong_state = 1;
    if (--chain->left > 0)
        must(hvd_allreduce_async(&chain->tensor, HVD_SUM, NULL, next_in_chain, chain, NULL),
             "submission in a callback");
}

static void case_callback(void)
{
    float data[10] = {0};
    struct callback_chain chain = {.tensor = hvd_vector("chain", data, 10, HVD_FLOAT32), .left = 50};
    data[3] = 1;
    must(hvd_allreduce_async(&chain.tensor, HVD_SUM, NULL, next_in_chain, &chain, NULL),
         "hvd_allreduce_async");
    while (chain.left > 0)
        sched_yield();
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
    if (chain.wrong_state)
        fail("a waiting call inside a callback was not refused");
}

/* No caller waits: hvd's own thread must make progress. */
static void case_test(void)
{
    for (int i = 0; i < 50; i++) {
        struct buffer buffer = make_buffer(5000, HVD_FLOAT64, 1);
        struct hvd_tensor tensor = tensor_of("test", &buffer);
        hvd_handle handle = 0;
        must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle), "hvd_allreduce_async");
        enum hvd_status status = HVD_IN_PROGRESS;
        while (status == HVD_IN_PROGRESS)
            status = hvd_test(handle);
        must(status, "hvd_test");
        check_reduced(&buffer, HVD_SUM, "test");
        must(hvd_wait(handle), "hvd_wait after hvd_test");
        must_be(hvd_test(handle), HVD_ERR_INVALID, "a handle that was given back");
        free_buffer(&buffer);
    }
}

static void *reduce_in_thread(void *arg)
{
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof(name), "thread%d", (int)(intptr_t)arg);
        struct buffer buffer = make_buffer(100 * (i % 7), HVD_FLOAT32, 0);
        struct hvd_tensor tensor = tensor_of(name, &buffer);
        must(hvd_allreduce(&tensor, HVD_AVERAGE, NULL), name);
        check_reduced(&buffer, HVD_AVERAGE, name);
        free_buffer(&buffer);
    }
    return NULL;
}

static void case_threads(void)
{
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, reduce_in_thread, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void case_errors(void)
{
    float data[8] = {0};
    char long_name[HVD_MAX_NAME + 2];
    hvd_handle handle = 99;
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    const struct hvd_tensor bad[] = {
        {NULL, data, data, HVD_FLOAT32, 1, {8}, HVD_MEMORY_ANY, 0},
        {"", data, data, HVD_FLOAT32, 1, {8}, HVD_MEMORY_ANY, 0},
        {long_name, data, data, HVD_FLOAT32, 1, {8}, HVD_MEMORY_ANY, 0},
        {"a\nb", data, data, HVD_FLOAT32, 1, {8}, HVD_MEMORY_ANY, 0},
        {"e", data, data, (enum hvd_dtype)77, 1, {8}, HVD_MEMORY_ANY, 0},
        {"e", data, data, HVD_FLOAT32, -1, {8}, HVD_MEMORY_ANY, 0},
        {"e", data, data, HVD_FLOAT32, 9, {8}, HVD_MEMORY_ANY, 0},
        {"e", data, data, HVD_FLOAT32, 1, {-8}, HVD_MEMORY_ANY, 0},
        {"e", data, data, HVD_FLOAT32, 2, {INT64_MAX, 2}, HVD_MEMORY_ANY, 0},
        {"e", NULL, data, HVD_FLOAT32, 1, {8}, HVD_MEMORY_ANY, 0},
        {"e", data, NULL, HVD_FLOAT32, 1, {8}, HVD_MEMORY_ANY, 0},
        {"e", data, data + 1, HVD_FLOAT32, 1, {4}, HVD_MEMORY_ANY, 0},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        must_be(hvd_allreduce(&bad[i], HVD_SUM, NULL), HVD_ERR_INVALID, "a bad tensor");
        must_be(hvd_allreduce_async(&bad[i], HVD_SUM, NULL, NULL, NULL, &handle), HVD_ERR_INVALID,
                "a bad tensor");
        if (handle != 99 || hvd_error_text()[0] == 0)
            fail("bad tensor %zu left a trace, or no sentence", i);
    }
    struct hvd_tensor good = hvd_vector("e", data, 8, HVD_FLOAT32);
    must_be(hvd_allreduce(NULL, HVD_SUM, NULL), HVD_ERR_INVALID, "no tensor");
    must_be(hvd_allreduce(&good, (enum hvd_op)9, NULL), HVD_ERR_INVALID, "a bad op");
    must_be(hvd_broadcast(&good, size, NULL), HVD_ERR_INVALID, "a root beyond the job");
    must_be(hvd_broadcast(&good, -1, NULL), HVD_ERR_INVALID, "a negative root");
    must_be(hvd_wait(12345), HVD_ERR_INVALID, "a handle that never was");
    must_be(hvd_wait_for(12345, -1), HVD_ERR_INVALID, "a negative timeout");
    must_be(hvd_init(), HVD_ERR_STATE, "hvd_init again");
    /* if there are other ranks, they have not submitted it, so that it stays in flight here */
    if (size > 1 && rank == 0) {
        must(hvd_allreduce_async(&good, HVD_SUM, NULL, NULL, NULL, &handle), "good");
        must_be(hvd_allreduce(&good, HVD_SUM, NULL), HVD_ERR_DUPLICATE, "a name in flight");
        must_be(hvd_wait_for(handle, 0), HVD_IN_PROGRESS, "a wait of no time");
        must_be(hvd_wait_for(handle, 2000), HVD_IN_PROGRESS, "a wait of some time");
        must_be(hvd_wait_on_stream_for(handle, NULL, 2000), HVD_IN_PROGRESS, "a wait on a stream");
        must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
        must(hvd_wait_for(handle, INT64_MAX), "good");
        must_be(hvd_wait_for(handle, INT64_MAX), HVD_ERR_INVALID, "a handle that was given back");
    } else {
        must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
        must(hvd_allreduce(&good, HVD_SUM, NULL), "good");
    }
}

/* Rank 0 shuts down while the others wait for it: they get an error that names it, and all ranks exit with 0.
 */
static void case_shutdown(void)
{
    float data[8] = {0};
    struct hvd_tensor tensor = hvd_vector("pending", data, 8, HVD_FLOAT32);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "before");
    if (rank != 0 || size == 1)
        must_be(size == 1 ? HVD_ERR_SHUTDOWN : hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_SHUTDOWN,
                "pending at shutdown");
    if (rank == 1)
        printf("%s\n", hvd_error_text());
    if (rank != 0)
        must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_SHUTDOWN, "after another's shutdown");
    must(hvd_shutdown(), "hvd_shutdown");
    must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_STATE, "after shutdown");
    if (hvd_rank() != -1 || hvd_is_initialized())
        fail("still a rank after hvd_shutdown");
    exit(0);
}

/* All ranks have come before the last one is killed. Others may hear of that before they hear of the end of
 * this barrier. */
static void pass_last_barrier(void)
{
    enum hvd_status status = hvd_barrier(HVD_ALL_RANKS);
    if (status != HVD_ERR_RANK_LOST)
        must(status, "hvd_barrier");
}

/* The last rank is killed, and a forked child keeps its descriptors open: the others get an error all the
 * same, and exit with 0. */
static void case_lost(void)
{
    float data[8] = {0};
    struct hvd_tensor tensor = hvd_vector("waits", data, 8, HVD_FLOAT32);
    signal(SIGTERM, SIG_IGN); /* the launcher may end the other ranks before they have printed their error */
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "before");
    pass_last_barrier();
    if (rank == size - 1) {
        if (fork() == 0) {
            /* like a data loader: it is not part of the job, and outlives its parent by 3 s */
            _exit(hvd_allreduce(&tensor, HVD_SUM, NULL) == HVD_ERR_STATE && hvd_rank() == -1 && sleep(3) == 0
                      ? 0
                      : 1);
        }
        raise(SIGKILL);
    }
    must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_RANK_LOST, "a lost rank");
    printf("%s\n", hvd_error_text());
    must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_RANK_LOST, "after a lost rank");
    must_be(hvd_shutdown(), HVD_ERR_RANK_LOST, "hvd_shutdown after a lost rank");
    exit(0);
}

/* As in case_lost, but the other ranks ignore the error: hvd ends them after kill-wait. */
static void case_stubborn(void)
{
    pass_last_barrier();
    if (rank == size - 1)
        raise(SIGKILL);
    for (;;)
        pause();
}

static void case_fork(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(hvd_barrier(HVD_ALL_RANKS) == HVD_ERR_STATE && hvd_init() == HVD_ERR_STATE &&
                      hvd_shutdown() == HVD_OK
                  ? 0
                  : 1);
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("the child's calls: status %d", status);
    case_allreduce();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"allreduce", case_allreduce}, {"order", case_order},       {"broadcast", case_broadcast},
    {"barrier", case_barrier},     {"mismatch", case_mismatch}, {"callback", case_callback},
    {"test", case_test},           {"threads", case_threads},   {"errors", case_errors},
    {"shutdown", case_shutdown},   {"lost", case_lost},         {"stubborn", case_stubborn},
    {"fork", case_fork},           {"again", case_again},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        must_be(hvd_barrier(HVD_ALL_RANKS), HVD_ERR_STATE, "before hvd_init");
        must(hvd_init(), "hvd_init");
        rank = hvd_rank();
        size = hvd_size();
        cases[i].run();
        must(hvd_shutdown(), "hvd_shutdown");
        return 0;
    }
    fprintf(stderr, "usage: collectives CASE\n");
    return 2;
}
