/* stalled.c: a rank that stands still inside an operation, run by every rank of a job: `stalled OPERATION
 * RANK STOPPED_MS TIMES`. That rank is stopped by SIGSTOP while large operations follow each other, for
 * STOPPED_MS each time, and goes on for 30 ms in between; all are where RANK is all, the
 * last rank first, and the first one is the first to go on. Exits 0 when it has gone on for the last time, or
 * 7 where hvd fails before that, and then prints what it said.
 *
 * OPERATION is an allreduce (of hvd_alloc's memory: window), a broadcast, an alltoall, a small one, gather:
 * an allgather in which the rank stops itself once the sizes are known, so that the stop is in the operation
 * for certain, or leave: the rank stops itself before it calls hvd_shutdown; or compute: it is not stopped,
 * but takes its time between two operations. */
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "ranks.h"
#include "base/process_signal.h"

#define LARGE_COUNT ((int64_t)8 << 20) /* floats */
#define SMALL_COUNT 1000

static void sleep_ms(int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* The process that stops and continues its parent. It begins when a byte comes, or at the parent's own
 * SIGSTOP. */
struct stopper {
    pid_t pid;
    int begin[2];
    int first_ms, stopped_ms, times; /* it stops the parent after first_ms, for stopped_ms each time */
};

static void stop_parent(const struct stopper *stopper, bool stops_itself)
{
    pid_t parent = getppid();
    char byte;
    if (read(stopper->begin[0], &byte, 1) != 1)
        _exit(1);
    for (int i = 0; i < stopper->times; i++) {
        sleep_ms(stops_itself ? 0 : i == 0 ? stopper->first_ms : 30);
        if (!stops_itself)
            process_signal(parent, SIGSTOP);
        sleep_ms(stopper->stopped_ms);
        process_signal(parent, SIGCONT);
    }
    _exit(0);
}

static void stopper_start(struct stopper *stopper, bool stops_itself)
{
    if (pipe(stopper->begin) != 0)
        ranks_fail("no pipe");
    stopper->pid = fork();
    if (stopper->pid != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(stopper->begin[1]);
    stop_parent(stopper, stops_itself);
}

static void stopper_begin(const struct stopper *stopper)
{
    if (write(stopper->begin[1], "b", 1) != 1)
        ranks_fail("the process that stops this rank is gone");
}

static bool stopper_is_done(const struct stopper *stopper)
{
    int status = 0;
    return waitpid(stopper->pid, &status, WNOHANG) != 0;
}

static void stop_culprit(const struct stopper *stopper)
{
    if (stopper->pid == 0)
        return;
    stopper_begin(stopper);
    raise(SIGSTOP);
}

static void *stop_and_allocate(int64_t bytes, void *arg)
{
    stop_culprit(arg);
    return malloc((size_t)bytes);
}

static enum hvd_status gather(float *data, struct stopper *stopper)
{
    struct hvd_tensor tensor = hvd_vector("big", data, 1000, HVD_FLOAT32);
    tensor.output = NULL;
    struct hvd_result result = {.allocate = stop_and_allocate, .arg = stopper};
    enum hvd_status status = hvd_allgather(&tensor, &result, NULL);
    if (status == HVD_OK)
        free(result.data);
    return status;
}

static enum hvd_status alltoall(float *data)
{
    struct hvd_tensor tensor = hvd_vector("big", data, LARGE_COUNT / size * size, HVD_FLOAT32);
    tensor.output = NULL;
    struct hvd_result result = {0};
    enum hvd_status status = hvd_alltoall(&tensor, NULL, &result, NULL);
    if (status == HVD_OK)
        free(result.data);
    return status;
}

static enum hvd_status operate(const char *operation, float *data)
{
    struct hvd_tensor tensor = hvd_vector("big", data, LARGE_COUNT, HVD_FLOAT32);
    if (strcmp(operation, "small") == 0)
        tensor.shape[0] = SMALL_COUNT;
    if (strcmp(operation, "alltoall") == 0)
        return alltoall(data);
    if (strcmp(operation, "broadcast") == 0)
        return hvd_broadcast(&tensor, 0, NULL);
    return hvd_allreduce(&tensor, HVD_MAX, NULL);
}

static float *data_for(const char *operation)
{
    void *data = NULL;
    if (strcmp(operation, "window") != 0)
        return calloc((size_t)LARGE_COUNT, sizeof(float));
    must(hvd_alloc(LARGE_COUNT * (int64_t)sizeof(float), &data), "hvd_alloc");
    return data;
}

/* The culprit computes for [ms] between two operations. */
static enum hvd_status compute(float *data, int ms, bool culprit)
{
    enum hvd_status status = operate("small", data);
    if (culprit)
        sleep_ms(ms);
    return status == HVD_OK ? operate("small", data) : status;
}

/* Operations until the culprit has gone on for the last time. */
static enum hvd_status loop(const char *operation, const struct stopper *stopper, bool culprit)
{
    float *data = data_for(operation);
    float over = 0;
    struct hvd_tensor flag = hvd_vector("over", &over, 1, HVD_FLOAT32);
    enum hvd_status status = operate(operation, data);
    if (culprit && status == HVD_OK)
        stopper_begin(stopper);
    while (status == HVD_OK && over == 0) {
        status = operate(operation, data);
        over = culprit && stopper_is_done(stopper) ? 1 : 0;
        if (status == HVD_OK)
            status = hvd_allreduce(&flag, HVD_MAX, NULL);
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s OPERATION RANK STOPPED_MS TIMES\n", argv[0]);
        return 2;
    }
    struct stopper stopper = {.first_ms = 300,
                              .stopped_ms = (int)strtol(argv[3], NULL, 10),
                              .times = (int)strtol(argv[4], NULL, 10)};
    bool leaves = strcmp(argv[1], "leave") == 0;
    bool stops_itself = leaves || strcmp(argv[1], "gather") == 0;
    signal(SIGTERM, SIG_IGN); /* a launcher sends it once one rank has ended: let the others print first */
    must(hvd_init(), "hvd_init");
    ranks_know();
    bool all = strcmp(argv[2], "all") == 0;
    bool culprit = all || rank == (int)strtol(argv[2], NULL, 10);
    if (all) {
        stopper.first_ms += 400 * (size - 1 - rank);
        stopper.stopped_ms += 600 * rank - 400 * (size - 1 - rank);
    }
    bool computes = strcmp(argv[1], "compute") == 0;
    if (culprit && !computes)
        stopper_start(&stopper, stops_itself);
    float data[1000] = {0};
    enum hvd_status status = HVD_OK;
    if (leaves)
        stop_culprit(&stopper);
    else if (computes)
        status = compute(data, stopper.stopped_ms, culprit);
    else
        status = stops_itself ? gather(data, &stopper) : loop(argv[1], &stopper, culprit);
    if (status == HVD_OK) {
        must(hvd_shutdown(), "hvd_shutdown");
        return 0;
    }
    printf("rank %d: %s\n", rank, hvd_error_text());
    fflush(stdout);
    return 7;
}
