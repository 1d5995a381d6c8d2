/* gpu_memory.c: memory on a GPU for programs of tests. The types are those of cuda.h, which is not needed. */
#include "gpu_memory.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct {
    int (*init)(unsigned flags);
    int (*get_device)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*push)(void *context);
    int (*allocate)(uint64_t *memory, size_t bytes);
    int (*free)(uint64_t memory);
    int (*left)(size_t *free_bytes, size_t *total_bytes);
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
    int (*synchronize)(void *stream);
    int (*launch_host)(void *stream, void (*function)(void *arg), void *arg);
    int (*create_stream)(void **stream, unsigned flags, int priority);
    int (*destroy_stream)(void *stream);
    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*launch_graph)(void *executable, void *stream);
    int (*destroy_graph)(void *graph);
    int (*destroy_executable)(void *executable);
    int (*pop)(void **context);
    void (*spare)(bool spare); /* NULL: only the double has it */
    void *library;
    void *context;
} cuda;

static void check(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "gpu_memory: %s: CUDA's error %d\n", what, result);
    abort();
}

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "gpu_memory: the driver has no %s\n", name);
        abort();
    }
    return found;
}

/* Calls that a test lets fail are those of hvd, and not these. */
static void spare(bool yes)
{
    if (cuda.spare != NULL)
        cuda.spare(yes);
}

int gpu_memory_ordinal(void)
{
    const char *local_rank = getenv("LOCAL_RANK");
    return getenv("GPU_OF_EACH") != NULL && local_rank != NULL ? (int)strtol(local_rank, NULL, 10) : 0;
}

bool gpu_memory_open(int ordinal)
{
    int device = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "gpu_memory: %s\n", dlerror());
        return false;
    }
    cuda.init = (int (*)(unsigned))find(library, "cuInit");
    cuda.get_device = (int (*)(int *, int))find(library, "cuDeviceGet");
    cuda.retain = (int (*)(void **, int))find(library, "cuDevicePrimaryCtxRetain");
    cuda.push = (int (*)(void *))find(library, "cuCtxPushCurrent_v2");
    cuda.pop = (int (*)(void **))find(library, "cuCtxPopCurrent_v2");
    cuda.allocate = (int (*)(uint64_t *, size_t))find(library, "cuMemAlloc_v2");
    cuda.free = (int (*)(uint64_t))find(library, "cuMemFree_v2");
    cuda.left = (int (*)(size_t *, size_t *))find(library, "cuMemGetInfo_v2");
    cuda.copy = (int (*)(uint64_t, uint64_t, size_t, void *))find(library, "cuMemcpyAsync");
    cuda.launch_host = (int (*)(void *, void (*)(void *), void *))find(library, "cuLaunchHostFunc");
    cuda.create_stream = (int (*)(void **, unsigned, int))find(library, "cuStreamCreateWithPriority");
    cuda.destroy_stream = (int (*)(void *))find(library, "cuStreamDestroy_v2");
    cuda.begin_capture = (int (*)(void *, int))find(library, "cuStreamBeginCapture_v2");
    cuda.end_capture = (int (*)(void *, void **))find(library, "cuStreamEndCapture");
    cuda.instantiate =
        (int (*)(void **, void *, unsigned long long))find(library, "cuGraphInstantiateWithFlags");
    cuda.launch_graph = (int (*)(void *, void *))find(library, "cuGraphLaunch");
    cuda.destroy_graph = (int (*)(void *))find(library, "cuGraphDestroy");
    cuda.destroy_executable = (int (*)(void *))find(library, "cuGraphExecDestroy");
    cuda.library = library;
    cuda.spare = (void (*)(bool))dlsym(library, "cuDoubleSpare");
    cuda.synchronize = (int (*)(void *))find(library, "cuStreamSynchronize");
    spare(true);
    check(cuda.init(0), "cuInit");
    check(cuda.get_device(&device, ordinal), "cuDeviceGet");
    check(cuda.retain(&cuda.context, device), "cuDevicePrimaryCtxRetain");
    spare(false);
    return true;
}

/* The calling thread may be one of hvd's. */
static void enter(void)
{
    spare(true);
    check(cuda.push(cuda.context), "cuCtxPushCurrent");
}

static void leave(void)
{
    void *left = NULL;
    check(cuda.pop(&left), "cuCtxPopCurrent");
    spare(false);
}

char *gpu_memory_new(size_t bytes)
{
    uint64_t memory = 0;
    enter();
    check(cuda.allocate(&memory, bytes), "cuMemAlloc");
    leave();
    return (char *)(uintptr_t)memory;
}

void gpu_memory_free(char *memory)
{
    enter();
    check(cuda.free((uint64_t)(uintptr_t)memory), "cuMemFree");
    leave();
}

size_t gpu_memory_left(void)
{
    size_t left = 0;
    size_t total = 0;
    enter();
    check(cuda.left(&left, &total), "cuMemGetInfo");
    leave();
    return left;
}

void gpu_memory_copy(void *to, const void *from, size_t bytes)
{
    enter();
    check(cuda.copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, NULL), "cuMemcpyAsync");
    check(cuda.synchronize(NULL), "cuStreamSynchronize");
    leave();
}

static _Atomic bool held;

static void wait_for_release(void *arg)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    (void)arg;
    for (int waited_ms = 0; held && waited_ms < 60000; waited_ms++)
        nanosleep(&pause, NULL);
}

void gpu_memory_hold(void)
{
    held = true;
    enter();
    check(cuda.launch_host(NULL, wait_for_release, NULL), "cuLaunchHostFunc");
    leave();
}

void gpu_memory_release(void)
{
    held = false;
}

int gpu_memory_waits(void)
{
    int (*waits)(void) = (int (*)(void))dlsym(cuda.library, "cuDoubleWaits");
    return waits != NULL ? waits() : -1;
}

void *gpu_memory_stream(void)
{
    void *stream = NULL;
    enter();
    check(cuda.create_stream(&stream, 1 /* CU_STREAM_NON_BLOCKING */, 0), "cuStreamCreateWithPriority");
    leave();
    return stream;
}

void gpu_memory_end_stream(void *stream)
{
    enter();
    check(cuda.destroy_stream(stream), "cuStreamDestroy");
    leave();
}

void gpu_memory_capture(void *stream, bool local)
{
    enter();
    /* CU_STREAM_CAPTURE_MODE_GLOBAL, _THREAD_LOCAL */
    check(cuda.begin_capture(stream, local ? 1 : 0), "cuStreamBeginCapture");
    leave();
}

void *gpu_memory_end_capture(void *stream)
{
    void *graph = NULL;
    void *executable = NULL;
    enter();
    check(cuda.end_capture(stream, &graph), "cuStreamEndCapture");
    check(cuda.instantiate(&executable, graph, 0), "cuGraphInstantiateWithFlags");
    check(cuda.destroy_graph(graph), "cuGraphDestroy");
    leave();
    return executable;
}

void gpu_memory_drop_capture(void *stream)
{
    void *graph = NULL;
    enter();
    if (cuda.end_capture(stream, &graph) == 0)
        check(cuda.destroy_graph(graph), "cuGraphDestroy");
    leave();
}

void gpu_memory_launch(void *graph, void *stream)
{
    enter();
    check(cuda.launch_graph(graph, stream), "cuGraphLaunch");
    leave();
}

void gpu_memory_discard(void *graph)
{
    enter();
    check(cuda.destroy_executable(graph), "cuGraphExecDestroy");
    leave();
}

void gpu_memory_copy_in(void *stream, void *to, const void *from, size_t bytes)
{
    enter();
    check(cuda.copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, stream), "cuMemcpyAsync");
    leave();
}

void gpu_memory_wait(void *stream)
{
    enter();
    check(cuda.synchronize(stream), "cuStreamSynchronize");
    leave();
}
