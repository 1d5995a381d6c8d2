/* gpu_faults.c: on one rank of a job calls of CUDA and NCCL that hvd makes fail, one in each round; run by
 * every rank, over the doubles, which are told by this program.
 *
 *     gpu_faults all                all of them, on each rank in turn
 *     gpu_faults CALL               all calls of this name
 *     gpu_faults few ROUNDS SEED    some, by chance
 *     gpu_faults CALL NTH RANK      one
 *
 * A round is a job of operations of all kinds. Each is right, or refused with a sentence that says what CUDA
 * or NCCL could not do; a second attempt is right, or the job has ended. Afterwards hvd has given back what
 * it had of the GPU, and the next round's job works. Exits 0 if that held. */
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>

#include "gpu_tensor.h"

/* What a failure of the call may do. */
enum effect {
    TOLD,      /* a sentence comes, unless the call was not needed */
    GIVES_BACK /* it gives something back, which then is lost: nobody can help that, and nobody needs to know
                */
};

struct fault {
    const char *call;
    enum effect effect;
    bool nccl;
};

/* Not those that start CUDA's driver, once in a process: where that fails, hvd does not ask it again. */
static const struct fault faults[] = {
    {"cuDeviceGet", TOLD, false},
    {"cuDeviceGetAttribute", TOLD, false},
    {"cuDeviceGetPCIBusId", TOLD, false},
    {"cuDevicePrimaryCtxRetain", TOLD, false},
    {"cuDevicePrimaryCtxRelease", GIVES_BACK, false},
    {"cuCtxPushCurrent", TOLD, false},
    {"cuCtxPopCurrent", GIVES_BACK, false},
    {"cuPointerGetAttributes", TOLD, false},
    {"cuMemAlloc", TOLD, false},
    {"cuMemFree", GIVES_BACK, false},
    {"cuMemHostAlloc", TOLD, false},
    {"cuMemFreeHost", GIVES_BACK, false},
    {"cuMemcpyAsync", TOLD, false},
    {"cuMemcpyHtoDAsync", TOLD, false},
    {"cuStreamCreateWithPriority", TOLD, false},
    {"cuStreamDestroy", GIVES_BACK, false},
    {"cuStreamQuery", TOLD, false},
    {"cuStreamWaitEvent", TOLD, false},
    {"cuStreamIsCapturing", TOLD, false},
    {"cuThreadExchangeStreamCaptureMode", GIVES_BACK, false},
    {"cuEventCreate", TOLD, false},
    {"cuEventDestroy", GIVES_BACK, false},
    {"cuEventRecord", TOLD, false},
    {"cuEventQuery", TOLD, false},
    {"cuModuleLoadData", TOLD, false},
    {"cuModuleUnload", GIVES_BACK, false},
    {"cuModuleGetFunction", TOLD, false},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", TOLD, false},
    {"cuLaunchKernel", TOLD, false},
    {"cuLaunchHostFunc", TOLD, false},
    {"ncclGetUniqueId", TOLD, true},
    {"ncclCommInitRankConfig", TOLD, true},
    {"ncclCommSplit", TOLD, true},
    {"ncclCommGetAsyncError", TOLD, true},
    {"ncclCommFinalize", TOLD, true},
    {"ncclCommDestroy", GIVES_BACK, true},
    {"ncclCommRegister", TOLD, true},
    {"ncclCommDeregister", GIVES_BACK, true},
    {"ncclMemAlloc", TOLD, true},
    {"ncclMemFree", GIVES_BACK, true},
    {"ncclGroupStart", TOLD, true},
    {"ncclGroupEnd", TOLD, true},
    {"ncclRedOpCreatePreMulSum", TOLD, true},
    {"ncclAllReduce", TOLD, true},
    {"ncclReduce", TOLD, true},
    {"ncclBroadcast", TOLD, true},
    {"ncclAllGather", TOLD, true},
    {"ncclReduceScatter", TOLD, true},
    {"ncclSend", TOLD, true},
    {"ncclRecv", TOLD, true},
    {"work", TOLD, true},
};

#define FAULTS (int)(sizeof(faults) / sizeof(faults[0]))

struct round {
    const struct fault *fault; /* NULL: none fails */
    int nth, victim;
};

/* ---- The doubles ------------------------------------------------------------------------------- */

static struct {
    bool (*fail_cuda)(const char *name, int nth);
    bool (*fail_nccl)(const char *name, int nth); /* NULL: there is no NCCL */
    int (*held_cuda)(void);
    int (*held_nccl)(void);
    int (*get_current)(void **context);
    int (*pop)(void **context);
    int (*exchange_mode)(int *mode);
} doubles;

static void *find(void *library, const char *name)
{
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL)
        ranks_fail("no %s: this program needs the doubles of libcuda and libnccl", name);
    return found;
}

static void find_doubles(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *nccl = dlopen(getenv("HVD_NCCL_LIBRARY"), RTLD_NOW);
    doubles.fail_cuda = (bool (*)(const char *, int))find(cuda, "cuDoubleFail");
    doubles.held_cuda = (int (*)(void))find(cuda, "cuDoubleHeld");
    doubles.get_current = (int (*)(void **))find(cuda, "cuCtxGetCurrent");
    doubles.pop = (int (*)(void **))find(cuda, "cuCtxPopCurrent_v2");
    doubles.exchange_mode = (int (*)(int *))find(cuda, "cuThreadExchangeStreamCaptureMode");
    if (nccl == NULL)
        return;
    doubles.fail_nccl = (bool (*)(const char *, int))find(nccl, "ncclDoubleFail");
    doubles.held_nccl = (int (*)(void))find(nccl, "ncclDoubleHeld");
}

/* The [nth] call of [fault] fails, 0: none does. Returns whether the one chosen before has come. */
static bool choose(const struct fault *fault, int nth)
{
    return fault->nccl ? doubles.fail_nccl(fault->call, nth) : doubles.fail_cuda(fault->call, nth);
}

static int held(void)
{
    return doubles.held_cuda() + (doubles.held_nccl != NULL ? doubles.held_nccl() : 0);
}

/* ---- One round --------------------------------------------------------------------------------- */

static const struct round *now; /* the round */
static float *plain;            /* memory of the GPU for all rounds, with room for 9 * COUNT */
static bool refused;            /* something was, in this round */

#define fail_round(format, ...)                                                                       \
    ranks_fail("%s %d on rank %d: " format, now->fault != NULL ? now->fault->call : "none", now->nth, \
               now->victim, __VA_ARGS__)

/* What one attempt needs, and leaves for the next. */
struct job {
    float *placed; /* of hvd_alloc_on */
    void *stream;
    hvd_set set;
    hvd_persistent persistent;
};

static void write_all(float *memory, int count, float value)
{
    float data[4 * COUNT];
    for (int i = 0; i < count; i++)
        data[i] = value;
    gpu_memory_copy(memory, data, (size_t)count * sizeof(float));
}

static void expect_all(const char *what, const float *memory, int64_t count, float expected)
{
    float data[4 * COUNT];
    gpu_memory_copy(data, memory, (size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; i++)
        if (data[i] != expected)
            fail_round("%s: element %d is %g, expected %g", what, (int)i, (double)data[i], (double)expected);
}

static float sum_of_ranks(void)
{
    return (float)(size * (size + 1) / 2);
}

/* Sums, of all ranks or of all but the first, of [count] tensors of COUNT elements from [memory] on; the
 * ranks have 1, 2, ... */
static enum hvd_status sum(const char *name, float *memory, int count, const struct hvd_options *options)
{
    struct hvd_tensor tensors[4];
    char names[4][40];
    write_all(memory, count * COUNT, (float)(rank + 1));
    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "%s.%d", name, i);
        tensors[i] = hvd_vector(names[i], memory + (ptrdiff_t)i * COUNT, COUNT, HVD_FLOAT32);
    }
    enum hvd_status status = count == 1 ? hvd_allreduce(tensors, HVD_SUM, options)
                                        : hvd_grouped_allreduce(tensors, count, HVD_SUM, options);
    float factor = options != NULL ? (float)options->prescale : 1;
    bool of_all = options == NULL || options->set == HVD_ALL_RANKS;
    if (status == HVD_OK)
        expect_all(name, memory, count * COUNT, factor * (sum_of_ranks() - (of_all ? 0 : 1)));
    return status;
}

static enum hvd_status sum_plain(struct job *job)
{
    (void)job;
    return sum("a sum", plain, 1, NULL);
}

static enum hvd_status sum_group(struct job *job)
{
    struct hvd_options options = HVD_OPTIONS_INIT;
    (void)job;
    options.prescale = 2;
    return sum("a group", plain, 4, &options);
}

static enum hvd_status place(struct job *job)
{
    void *memory = NULL;
    enum hvd_status status = hvd_alloc_on(gpu_memory_ordinal(), (int64_t)(COUNT * sizeof(float)), &memory);
    if (status == HVD_OK)
        job->placed = memory;
    return status;
}

static enum hvd_status sum_placed(struct job *job)
{
    return sum("a sum in memory of hvd_alloc_on", job->placed, 1, NULL);
}

/* CUDA or NCCL is named where it failed; the other ranks are told of that rank. */
static void check_sentence(const char *what, enum hvd_status status)
{
    const char *text = hvd_error_text();
    if (status == HVD_ERR_TIMEOUT)
        fail_round("%s hangs: %s", what, text);
    if (rank == now->victim && strstr(text, "CUDA: ") == NULL && strstr(text, "NCCL: ") == NULL && !refused)
        fail_round("%s: \"%s\" does not say what failed", what, text);
    if (text[0] == 0)
        fail_round("%s: status %d without a sentence", what, (int)status);
    refused = true;
}

/* A stream has waited for a result: it is right, unless the job ended after the launch, when it is undefined.
 * All ranks call this. */
static enum hvd_status expect_launched(const char *what, const float *memory)
{
    enum hvd_status status = hvd_barrier(HVD_ALL_RANKS);
    if (status == HVD_OK)
        expect_all(what, memory, COUNT, sum_of_ranks());
    return status;
}

/* The host does not wait. Where the stream cannot, the operation goes on, in memory of its own. */
static enum hvd_status sum_on_stream(struct job *job)
{
    float *memory = plain + 8 * COUNT;
    hvd_handle handle = 0;
    struct hvd_tensor tensor = on_gpu("a sum for a stream", memory, COUNT);
    write_all(memory, COUNT, (float)(rank + 1));
    enum hvd_status status = hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle);
    if (status != HVD_OK)
        return status;
    status = hvd_wait_on_stream(handle, job->stream);
    gpu_memory_wait(job->stream);
    if (status == HVD_OK)
        return expect_launched("a sum for a stream", memory);
    check_sentence("a stream that waits", status);
    return hvd_barrier(HVD_ALL_RANKS);
}

static enum hvd_status broadcast(struct job *job)
{
    struct hvd_tensor tensor = on_gpu("a broadcast", plain, COUNT);
    (void)job;
    write_all(plain, COUNT, (float)(rank + 1));
    enum hvd_status status = hvd_broadcast(&tensor, size - 1, NULL);
    if (status == HVD_OK)
        expect_all("a broadcast", plain, COUNT, (float)size);
    return status;
}

static void *give(int64_t bytes, void *arg)
{
    return bytes <= (int64_t)(4 * COUNT * sizeof(float)) ? arg : NULL;
}

static enum hvd_status gather(struct job *job)
{
    struct hvd_tensor tensor = on_gpu("an allgather", plain, rank + 1);
    struct hvd_result result = {.allocate = give, .arg = plain + 4 * COUNT};
    (void)job;
    tensor.output = NULL;
    write_all(plain, rank + 1, 7);
    enum hvd_status status = hvd_allgather(&tensor, &result, NULL);
    if (status == HVD_OK)
        expect_all("an allgather", result.data, result.row_count, 7);
    return status;
}

static enum hvd_status exchange(struct job *job)
{
    struct hvd_tensor tensor = on_gpu("an alltoall", plain, size);
    struct hvd_result result = {.allocate = give, .arg = plain + 4 * COUNT};
    (void)job;
    tensor.output = NULL;
    write_all(plain, size, 5);
    enum hvd_status status = hvd_alltoall(&tensor, NULL, &result, NULL);
    if (status == HVD_OK)
        expect_all("an alltoall", result.data, size, 5);
    return status;
}

static enum hvd_status share(struct job *job)
{
    int64_t rows = 2 * (int64_t)size + 1;
    struct hvd_tensor tensor = on_gpu("a reducescatter", plain, rows);
    (void)job;
    tensor.output = plain + 4 * COUNT;
    write_all(plain, (int)rows, (float)(rank + 1));
    enum hvd_status status = hvd_reducescatter(&tensor, HVD_SUM, NULL);
    if (status == HVD_OK)
        expect_all("a reducescatter", tensor.output, hvd_share_rows(rows, rank, size), sum_of_ranks());
    return status;
}

/* All but rank 0. */
static enum hvd_status add_set(struct job *job)
{
    int members[16];
    for (int i = 1; i < size; i++)
        members[i - 1] = i;
    return hvd_set_add(members, size - 1, &job->set);
}

static enum hvd_status sum_in_set(struct job *job)
{
    struct hvd_options options = HVD_OPTIONS_INIT;
    options.set = job->set;
    return rank > 0 ? sum("a sum in a set", plain, 2, &options) : HVD_OK;
}

static enum hvd_status remove_set(struct job *job)
{
    return hvd_set_remove(job->set);
}

/* Without NCCL there are no persistent operations. */
static enum hvd_status make_persistent(struct job *job)
{
    struct hvd_tensor tensors[] = {on_gpu("persistent.0", plain, COUNT),
                                   on_gpu("persistent.1", plain + 2 * COUNT, COUNT)};
    enum hvd_status status = hvd_allreduce_init(tensors, 2, HVD_SUM, NULL, &job->persistent);
    return status == HVD_ERR_UNSUPPORTED && doubles.fail_nccl == NULL ? HVD_OK : status;
}

static enum hvd_status start(struct job *job)
{
    if (job->persistent == 0)
        return HVD_OK;
    write_all(plain, 3 * COUNT, (float)(rank + 1));
    enum hvd_status status = hvd_persistent_start(job->persistent, job->stream);
    gpu_memory_wait(job->stream);
    return status == HVD_OK ? expect_launched("a start", plain) : status;
}

static enum hvd_status start_in_graph(struct job *job)
{
    if (job->persistent == 0)
        return HVD_OK;
    gpu_memory_capture(job->stream, true);
    enum hvd_status status = hvd_persistent_start(job->persistent, job->stream);
    if (status != HVD_OK) {
        gpu_memory_drop_capture(job->stream);
        return status;
    }
    void *graph = gpu_memory_end_capture(job->stream);
    if (hvd_barrier(HVD_ALL_RANKS) == HVD_OK) {
        write_all(plain, 3 * COUNT, (float)(rank + 1));
        gpu_memory_launch(graph, job->stream);
        gpu_memory_wait(job->stream);
        expect_launched("a graph", plain);
    }
    gpu_memory_discard(graph);
    return HVD_OK;
}

static enum hvd_status free_persistent(struct job *job)
{
    return job->persistent == 0 ? HVD_OK : hvd_persistent_free(job->persistent);
}

static const struct step {
    const char *name;
    enum hvd_status (*attempt)(struct job *job);
} steps[] = {
    {"hvd_alloc_on", place},
    {"a sum", sum_plain},
    {"a group", sum_group},
    {"a sum in memory of hvd_alloc_on", sum_placed},
    {"a sum for a stream", sum_on_stream},
    {"a broadcast", broadcast},
    {"an allgather", gather},
    {"an alltoall", exchange},
    {"a reducescatter", share},
    {"hvd_set_add", add_set},
    {"a sum in a set", sum_in_set},
    {"hvd_set_remove", remove_set},
    {"a persistent operation", make_persistent},
    {"a start", start},
    {"a second start", start},
    {"a start in a graph", start_in_graph},
    {"the end of a persistent operation", free_persistent},
};

/* Returns whether the job goes on. */
static bool make(const struct step *step, struct job *job)
{
    hvd_handle handle = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        enum hvd_status status = step->attempt(job);
        if (status == HVD_OK)
            return true;
        check_sentence(step->name, status);
    }
    if (hvd_barrier_async(HVD_ALL_RANKS, NULL, NULL, &handle) == HVD_OK)
        fail_round("%s fails again, and the job goes on", step->name);
    return false;
}

/* CUDA's state of this thread, its context and capture mode, is as before. */
static void check_thread(void)
{
    void *context = NULL;
    int mode = 0; /* CU_STREAM_CAPTURE_MODE_GLOBAL */
    bool gives_back = now->fault != NULL && now->fault->effect == GIVES_BACK;
    doubles.get_current(&context);
    doubles.exchange_mode(&mode);
    if ((context != NULL || mode != 0) && !gives_back)
        fail_round("after it a context is current: %p, or the capture mode is %d", context, mode);
    while (context != NULL) {
        doubles.pop(NULL);
        context = NULL;
        doubles.get_current(&context);
    }
}

/* NCCL may give back a communicator a moment later. */
static void check_held(int before)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    bool gives_back = now->fault != NULL && now->fault->effect == GIVES_BACK;
    for (int waited_ms = 0; held() > before && !gives_back; waited_ms++) {
        if (waited_ms == 5000)
            fail_round("%d things of the GPU are not given back", held() - before);
        nanosleep(&pause, NULL);
    }
}

/* Returns whether the call came. hvd is initialised; at the end it is not. */
static bool run(const struct round *round)
{
    struct job job = {.stream = gpu_memory_stream()};
    int before = held();
    bool came = false;
    now = round;
    refused = false;
    if (round->fault != NULL && rank == round->victim)
        choose(round->fault, round->nth);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && make(&steps[i], &job); i++)
        ;
    if (!refused)
        hvd_barrier(HVD_ALL_RANKS);
    if (job.placed != NULL)
        must(hvd_free(job.placed), "hvd_free");
    hvd_shutdown();
    if (round->fault != NULL && rank == round->victim)
        came = choose(round->fault, 0);
    if (refused && !came && rank == round->victim)
        fail_round("%s", "something was refused, and nothing had failed");
    check_thread();
    check_held(before);
    gpu_memory_end_stream(job.stream);
    return came;
}

/* ---- All rounds -------------------------------------------------------------------------------- */

static bool anywhere(bool here)
{
    int32_t number = here;
    struct hvd_tensor tensor = hvd_vector("anywhere", &number, 1, HVD_INT32);
    tensor.memory = HVD_MEMORY_HOST;
    must(hvd_allreduce(&tensor, HVD_MAX, NULL), "what the ranks tell each other");
    return number != 0;
}

/* Every call from the first on, and then fewer and fewer. Returns how many rounds it made. */
static int run_all_of(const struct fault *fault, int victim)
{
    int rounds = 0;
    bool came = true;
    struct round round = {fault, 1, victim};
    while (came) {
        came = run(&round);
        must(hvd_init(), "hvd_init after it");
        came = anywhere(came);
        round.nth += 1 + round.nth / 8;
        rounds++;
    }
    return rounds;
}

static bool may_fail(const struct fault *fault)
{
    return !fault->nccl || doubles.fail_nccl != NULL;
}

/* All, or those of [call]. */
static void run_all(const char *call)
{
    for (int victim = 0; victim < size; victim++) {
        for (int i = 0; i < FAULTS; i++) {
            bool wanted = strcmp(call, "all") == 0 || strcmp(call, faults[i].call) == 0;
            int rounds = wanted && may_fail(&faults[i]) ? run_all_of(&faults[i], victim) : 0;
            if (rank == 0 && wanted)
                printf("%s on rank %d: %d rounds\n", faults[i].call, victim, rounds);
        }
    }
}

static unsigned next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*state >> 33);
}

static void run_few(int rounds, uint64_t seed)
{
    for (int i = 0; i < rounds; i++) {
        struct round round = {.nth = 0};
        do
            round.fault = &faults[next_random(&seed) % FAULTS];
        while (!may_fail(round.fault));
        round.nth = 1 + (int)(next_random(&seed) % 4);
        round.victim = (int)(next_random(&seed) % (unsigned)size);
        run(&round);
        must(hvd_init(), "hvd_init after it");
    }
}

static void run_one(const char *call, int nth, int victim)
{
    struct round round = {NULL, nth, victim};
    for (int i = 0; i < FAULTS; i++)
        if (strcmp(faults[i].call, call) == 0)
            round.fault = &faults[i];
    bool came = run(&round);
    must(hvd_init(), "hvd_init after it");
    if (!anywhere(came))
        ranks_fail("%s was not called %d times", call, nth);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: %s all | CALL | few ROUNDS SEED | CALL NTH RANK\n", argv[0]);
        return 2;
    }
    if (!gpu_memory_open(gpu_memory_ordinal()))
        return 2;
    find_doubles();
    plain = (float *)(void *)gpu_memory_new(9 * COUNT * sizeof(float));
    must(hvd_init(), "hvd_init");
    ranks_know();
    if (argc == 2)
        run_all(argv[1]);
    else if (strcmp(argv[1], "few") == 0)
        run_few((int)strtol(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    else
        run_one(argv[1], (int)strtol(argv[2], NULL, 10), (int)strtol(argv[3], NULL, 10));
    run(&(struct round){.victim = -1}); /* a job without a fault */
    gpu_memory_free((char *)plain);
    return 0;
}
