/* test_nccl_double.c: the double of NCCL carries what NCCL carries, and complains where a program breaks
 * NCCL's rules: tests of what uses it prove nothing otherwise. */
#include "cuda_double.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/nccl/nccl_calls.h"
#include "base/process_signal.h"

#define RANKS_MAX 4
#define COUNT     100

static struct cuda_driver *driver;
static struct nccl *nccl;
static ncclUniqueId id;
static CUstream stream;
static char report[64];
static pthread_barrier_t *all_ranks; /* in memory that they share */

/* A rank that fails says why, and exits with another status than one about which the double complains. */
#define must(what, ...)                                            \
    do {                                                           \
        if (!(what)) {                                             \
            fprintf(stderr, "rank %d, line %d: ", rank, __LINE__); \
            fprintf(stderr, __VA_ARGS__);                          \
            fputc('\n', stderr);                                   \
            _exit(1);                                              \
        }                                                          \
    } while (0)

/* ---- Ranks ---------------------------------------------------------------------------------- */

static void open_libraries(int rank)
{
    char path[4096];
    struct hvd_error err = {""};
    CUdevice number = 0;
    CUcontext context = NULL;
    const char *build = getenv("HVD_BUILD");
    driver = cuda_double_open();
    snprintf(path, sizeof(path), "%s/tests/double/nccl/.libs/libnccl.so.2", build != NULL ? build : ".");
    must(nccl_open(path, NULL, &nccl, &err) == HVD_OK, "%s", err.text);
    driver->cuDeviceGet(&number, rank);
    driver->cuDevicePrimaryCtxRetain(&context, number);
    driver->cuCtxPushCurrent(context);
    driver->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
}

static void close_libraries(int rank)
{
    driver->cuStreamDestroy(stream);
    driver->cuDevicePrimaryCtxRelease(rank);
    nccl_close(nccl);
    cuda_driver_close(driver);
}

static ncclResult_t await_comm(ncclComm_t comm)
{
    const struct timespec pause = {.tv_nsec = 100000};
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress && nccl->ncclCommGetAsyncError(comm, &state) == ncclSuccess)
        nanosleep(&pause, NULL);
    return state;
}

static ncclComm_t connect_ranks(int rank, int size)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    config.blocking = 0;
    must(nccl->ncclCommInitRankConfig(&comm, size, id, rank, &config) == ncclInProgress, "no communicator");
    must(await_comm(comm) == ncclSuccess, "the ranks are not connected");
    return comm;
}

static void disconnect(ncclComm_t comm)
{
    driver->cuStreamSynchronize(stream);
    nccl->ncclCommFinalize(comm);
    await_comm(comm);
    nccl->ncclCommDestroy(comm);
}

typedef void (*rank_f)(int rank, int size);

static void run_rank(rank_f function, int rank, int size, const int *fds)
{
    setenv("HVD_DOUBLE_REPORT", report, 1);
    open_libraries(rank);
    if (rank == 0)
        nccl->ncclGetUniqueId(&id);
    for (int peer = 0; peer < size && rank == 0; peer++)
        must(write(fds[1], &id, sizeof(id)) == sizeof(id), "the id is not written");
    must(read(fds[0], &id, sizeof(id)) == sizeof(id), "the id is not read");
    alarm(60);
    function(rank, size);
    close_libraries(rank);
    exit(0);
}

static void make_barrier(int size)
{
    pthread_barrierattr_t attributes;
    all_ranks = mmap(NULL, sizeof(*all_ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(all_ranks, MAP_FAILED);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(all_ranks, &attributes, (unsigned)size);
    pthread_barrierattr_destroy(&attributes);
}

/* Run [function] on [size] ranks, of which [complaints] must be given up with a complaint that has [words],
 * the others, killed when that has happened, may do anything; without complaints all must exit with 0. */
static void run_ranks(rank_f function, int size, const char *words)
{
    pid_t pids[RANKS_MAX];
    char text[4096] = "";
    int fds[2];
    int bad = 0;
    snprintf(report, sizeof(report), "/tmp/nccl_double.%d", (int)getpid());
    ck_assert_int_eq(pipe(fds), 0);
    make_barrier(size);
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0)
            run_rank(function, rank, size, fds);
    }
    for (int ended = 0; ended < size; ended++) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, 0);
        bad += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        for (int rank = 0; rank < size; rank++) {
            if (pids[rank] == pid)
                pids[rank] = 0;
            else if (pids[rank] > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
                process_signal(pids[rank], SIGKILL);
        }
    }
    FILE *file = fopen(report, "re");
    if (file != NULL) {
        text[fread(text, 1, sizeof(text) - 1, file)] = 0;
        fclose(file);
        unlink(report);
    }
    munmap(all_ranks, sizeof(*all_ranks));
    ck_assert_msg(words != NULL || (bad == 0 && text[0] == 0), "%d ranks failed: %s", bad, text);
    ck_assert_msg(words == NULL || strstr(text, words) != NULL, "no complaint of \"%s\": %s", words, text);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* COUNT times [value]. */
static float *upload(float value, int64_t count)
{
    float here[COUNT * RANKS_MAX];
    CUdeviceptr memory = 0;
    for (int64_t i = 0; i < count; i++)
        here[i] = value;
    driver->cuMemAlloc(&memory, (size_t)count * sizeof(float));
    driver->cuMemcpyHtoDAsync(memory, here, (size_t)count * sizeof(float), stream);
    driver->cuStreamSynchronize(stream);
    return (float *)memory;
}

static void expect(int rank, const float *memory, int64_t count, float value)
{
    float here[COUNT * RANKS_MAX];
    driver->cuMemcpyDtoHAsync(here, (CUdeviceptr)memory, (size_t)count * sizeof(float), stream);
    driver->cuStreamSynchronize(stream);
    for (int64_t i = 0; i < count; i++)
        must(here[i] == value, "element %d is %g, not %g", (int)i, (double)here[i], (double)value);
}

static void discard(float *memory)
{
    driver->cuMemFree((CUdeviceptr)memory);
}

static ncclResult_t sum(float *memory, ncclComm_t comm)
{
    return nccl->ncclAllReduce(memory, memory, COUNT, ncclFloat32, ncclSum, comm, stream);
}

/* ---- What it carries ------------------------------------------------------------------------ */

static void carry(int rank, int size)
{
    ncclComm_t comm = connect_ranks(rank, size);
    float *one = upload((float)rank + 1, COUNT);
    float *all = upload(0, COUNT * size);
    float total = (float)(size * (size + 1)) / 2;
    nccl->ncclAllGather(one, all, COUNT, ncclFloat32, comm, stream);
    await_comm(comm);
    for (int peer = 0; peer < size; peer++)
        expect(rank, all + (ptrdiff_t)COUNT * peer, COUNT, (float)peer + 1);
    sum(one, comm);
    await_comm(comm);
    expect(rank, one, COUNT, total);
    nccl->ncclReduceScatter(all, one, COUNT, ncclFloat32, ncclSum, comm, stream);
    await_comm(comm);
    expect(rank, one, COUNT, (float)(size * (rank + 1)));
    nccl->ncclBroadcast(one, one, COUNT, ncclFloat32, size - 1, comm, stream);
    await_comm(comm);
    expect(rank, one, COUNT, (float)(size * size));
    disconnect(comm);
    discard(one);
    discard(all);
}

START_TEST(carries_collectives)
{
    run_ranks(carry, 3, NULL);
}
END_TEST

/* A sum in a graph runs at each launch, on the memory that was captured; and the communicator does not end
 * while the graph is there. */
static void replay(int rank, int size)
{
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    ncclResult_t state = ncclSuccess;
    ncclComm_t comm = connect_ranks(rank, size);
    float *memory = upload((float)rank + 1, COUNT);
    float total = (float)(size * (size + 1)) / 2;
    must(driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS, "no capture");
    sum(memory, comm);
    must(await_comm(comm) == ncclSuccess, "the sum is not captured");
    must(driver->cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS, "no graph");
    driver->cuGraphInstantiateWithFlags(&executable, graph, 0);
    driver->cuGraphDestroy(graph);
    expect(rank, memory, COUNT, (float)rank + 1);
    for (int launch = 0; launch < 3; launch++, total *= (float)size) {
        driver->cuGraphLaunch(executable, stream);
        expect(rank, memory, COUNT, total);
    }
    nccl->ncclCommFinalize(comm);
    for (int look = 0; look < 100; look++) {
        nccl->ncclCommGetAsyncError(comm, &state);
        must(state == ncclInProgress, "the communicator ends before the graph");
    }
    driver->cuGraphExecDestroy(executable);
    must(await_comm(comm) == ncclSuccess, "the communicator does not end");
    nccl->ncclCommDestroy(comm);
    discard(memory);
}

START_TEST(repeats_what_a_graph_holds)
{
    run_ranks(replay, 3, NULL);
}
END_TEST

/* Ranks 1, 0 are one communicator, 2 is in none and 3 alone; then all, backwards. */
static void split(int rank, int size)
{
    static const int colors[] = {5, 5, NCCL_SPLIT_NOCOLOR, 0};
    ncclComm_t comm = connect_ranks(rank, size);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t part = NULL;
    config.blocking = 0;
    must(nccl->ncclCommSplit(comm, colors[rank], -rank, &part, &config) == ncclSuccess, "no split");
    must(await_comm(comm) == ncclSuccess && (part != NULL) == (rank != 2), "the split is not done");
    if (part != NULL) {
        must(await_comm(part) == ncclSuccess, "its ranks are not connected");
        float *memory = upload((float)rank, COUNT);
        nccl->ncclBroadcast(memory, memory, COUNT, ncclFloat32, 0, part, stream);
        await_comm(part);
        expect(rank, memory, COUNT, rank == 3 ? 3 : 1);
        disconnect(part);
        discard(memory);
    }
    must(nccl->ncclCommSplit(comm, 0, -rank, &part, &config) == ncclSuccess, "no second split");
    must(await_comm(comm) == ncclSuccess && await_comm(part) == ncclSuccess, "it is not done");
    float *memory = upload((float)rank, COUNT);
    nccl->ncclBroadcast(memory, memory, COUNT, ncclFloat32, 0, part, stream);
    await_comm(part);
    expect(rank, memory, COUNT, (float)size - 1);
    disconnect(part);
    disconnect(comm);
    discard(memory);
}

START_TEST(splits_communicators)
{
    run_ranks(split, 4, NULL);
}
END_TEST

/* HVD_DOUBLE_NCCL_FAIL names the call; what the group held before is not carried out. A rank that gives up
 * fails the communicators of the others, also while they connect. */
static void fail_in_group(int rank, int size)
{
    ncclComm_t comm = connect_ranks(rank, size);
    pthread_barrier_wait(all_ranks);
    float *first = upload(1, COUNT);
    float *second = upload(1, COUNT);
    ncclResult_t state = ncclSuccess;
    must(nccl->ncclGroupStart() == ncclSuccess, "no group");
    sum(first, comm);
    sum(second, comm);
    must(nccl->ncclGroupEnd() == ncclUnhandledCudaError, "the group did not fail");
    must(nccl->ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclUnhandledCudaError,
         "the communicator has the error %d", (int)state);
    must(sum(first, comm) == ncclUnhandledCudaError, "it goes on");
    must(nccl->ncclGroupStart() == ncclSuccess && nccl->ncclGroupEnd() == ncclSuccess, "leftovers");
    pthread_barrier_wait(all_ranks);
    nccl->ncclCommAbort(comm);
    expect(rank, first, COUNT, 1);
    expect(rank, second, COUNT, 1);
    discard(first);
    discard(second);
}

START_TEST(drops_a_group_that_failed)
{
    static const char *const calls[] = {"ncclAllReduce:1", "ncclAllReduce:2", "ncclGroupEnd:1"};
    setenv("HVD_DOUBLE_NCCL_FAIL", calls[_i], 1);
    run_ranks(fail_in_group, 2, NULL);
}
END_TEST

static void registered(int rank, int size)
{
    void *memory = NULL;
    void *handle = NULL;
    ncclComm_t comm = connect_ranks(rank, size);
    must(nccl->ncclMemAlloc(&memory, 2 * COUNT * sizeof(float)) == ncclSuccess, "no memory");
    must(nccl->ncclCommRegister(comm, memory, 2 * COUNT * sizeof(float), &handle) == ncclSuccess &&
             handle != NULL,
         "it is not registered");
    sum((float *)memory + COUNT, comm);
    must(await_comm(comm) == ncclSuccess, "the sum failed");
    driver->cuStreamSynchronize(stream);
    must(nccl->ncclCommDeregister(comm, handle) == ncclSuccess, "it stays registered");
    setenv("NCCL_LOCAL_REGISTER", "0", 1);
    must(nccl->ncclCommRegister(comm, memory, COUNT, &handle) == ncclSuccess && handle == NULL,
         "it is registered though the user said no");
    disconnect(comm);
    must(nccl->ncclMemFree(memory) == ncclSuccess, "it is not freed");
}

START_TEST(registers_memory)
{
    run_ranks(registered, 2, NULL);
}
END_TEST

/* ---- What it complains about ---------------------------------------------------------------- */

static void host_memory(int rank, int size)
{
    float here[COUNT] = {0};
    sum(here, connect_ranks(rank, size));
}

static void short_memory(int rank, int size)
{
    sum(upload(1, COUNT / 2), connect_ranks(rank, size));
}

static void short_gather(int rank, int size)
{
    nccl->ncclAllGather(upload(1, COUNT), upload(1, COUNT), COUNT, ncclFloat32, connect_ranks(rank, size),
                        stream);
}

static void other_device(int rank, int size)
{
    CUdevice number = 0;
    CUcontext context = NULL;
    ncclComm_t comm = connect_ranks(rank, size);
    driver->cuDeviceGet(&number, rank + 1);
    driver->cuDevicePrimaryCtxRetain(&context, number);
    driver->cuCtxPushCurrent(context);
    sum(upload(1, COUNT), comm);
}

static void too_early(int rank, int size)
{
    ncclComm_t comm = connect_ranks(rank, size);
    float *memory = upload(1, COUNT);
    sum(memory, comm);
    sum(memory, comm);
}

static void too_late(int rank, int size)
{
    ncclComm_t comm = connect_ranks(rank, size);
    nccl->ncclCommAbort(comm);
    sum(upload(1, COUNT), comm);
}

static void other_order(int rank, int size)
{
    ncclComm_t comm = connect_ranks(rank, size);
    float *memory = upload(1, COUNT);
    if (rank == 0)
        sum(memory, comm);
    else
        nccl->ncclBroadcast(memory, memory, COUNT, ncclFloat32, 0, comm, stream);
    driver->cuStreamSynchronize(stream);
}

/* Rank 0 sums in memory that is registered, the others at element [at] of theirs; -1: in memory that is not.
 */
static void mix(int rank, int size, int at)
{
    void *memory = NULL;
    void *handle = NULL;
    ncclComm_t comm = connect_ranks(rank, size);
    nccl->ncclMemAlloc(&memory, 2 * COUNT * sizeof(float));
    if (rank == 0 || at >= 0)
        nccl->ncclCommRegister(comm, memory, 2 * COUNT * sizeof(float), &handle);
    sum((float *)memory + (rank == 0 || at < 0 ? 0 : at), comm);
    driver->cuStreamSynchronize(stream);
}

static void mixed(int rank, int size)
{
    mix(rank, size, -1);
}

static void shifted(int rank, int size)
{
    mix(rank, size, 8);
}

static void freed_too_early(int rank, int size)
{
    void *memory = NULL;
    void *handle = NULL;
    ncclComm_t comm = connect_ranks(rank, size);
    nccl->ncclMemAlloc(&memory, COUNT);
    nccl->ncclCommRegister(comm, memory, COUNT, &handle);
    nccl->ncclMemFree(memory);
}

static void partly(int rank, int size)
{
    void *memory = NULL;
    void *handle = NULL;
    ncclComm_t comm = connect_ranks(rank, size);
    nccl->ncclMemAlloc(&memory, COUNT * sizeof(float));
    nccl->ncclCommRegister(comm, memory, COUNT * sizeof(float), &handle);
    nccl->ncclAllReduce(memory, upload(1, COUNT), COUNT, ncclFloat32, ncclSum, comm, stream);
}

/* A minute, unless a complaint ends the process. */
static void stand_still(void *arg)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    (void)arg;
    for (int waited_ms = 0; waited_ms < 60000; waited_ms++)
        nanosleep(&pause, NULL);
}

static void used(int rank, int size)
{
    void *memory = NULL;
    void *handle = NULL;
    ncclComm_t comm = connect_ranks(rank, size);
    nccl->ncclMemAlloc(&memory, COUNT * sizeof(float));
    nccl->ncclCommRegister(comm, memory, COUNT * sizeof(float), &handle);
    driver->cuLaunchHostFunc(stream, stand_still, NULL);
    sum(memory, comm);
    await_comm(comm);
    nccl->ncclCommDeregister(comm, handle);
}

static void busy_split(int rank, int size)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = connect_ranks(rank, size);
    ncclComm_t part = NULL;
    config.blocking = 0;
    sum(upload(1, COUNT), comm);
    nccl->ncclCommSplit(comm, 0, 0, &part, &config);
}

static void left_behind(int rank, int size)
{
    connect_ranks(rank, size);
}

START_TEST(complains)
{
    static const struct {
        rank_f function;
        int size;
        const char *words;
    } cases[] = {{host_memory, 1, "is no memory of a device"},
                 {short_memory, 1, "but the allocation ends after 200"},
                 {short_gather, 2, "800 bytes at"},
                 {other_device, 1, "is memory of device 1, and the communicator's is 0"},
                 {too_early, 1, "ncclAllReduce: the communicator is still at work"},
                 {too_late, 1, "the communicator was destroyed or aborted"},
                 {other_order, 2, "in another order"},
                 {mixed, 2, "(-1: not registered)"},
                 {shifted, 2, "(-1: not registered)"},
                 {freed_too_early, 1, "ncclMemFree: a communicator of 1 ranks has"},
                 {partly, 1, "only one of input and output is in registered memory"},
                 {used, 1, "ncclCommDeregister: work in a stream uses the memory"},
                 {busy_split, 1, "ncclCommSplit: the communicator is still at work"},
                 {left_behind, 2, "a communicator of 2 ranks was neither destroyed nor aborted"}};
    run_ranks(cases[_i].function, cases[_i].size, cases[_i].words);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("nccl double");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, carries_collectives);
    tcase_add_test(tcase, splits_communicators);
    tcase_add_test(tcase, repeats_what_a_graph_holds);
    tcase_add_loop_test(tcase, drops_a_group_that_failed, 0, 3);
    tcase_add_test(tcase, registers_memory);
    tcase_add_loop_test(tcase, complains, 0, 14);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("nccl_double", fill);
}
