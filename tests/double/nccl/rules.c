/* rules.c: what tests ask for, and the double of libcuda beneath. */
#include "double.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char double_library[] = "libnccl";

ncclResult_t double_call(const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int calls;
    const char *text = getenv("HVD_DOUBLE_NCCL_FAIL");
    size_t length = strlen(name);
    ncclResult_t result = ncclSuccess;
    int nth = 0;
    if (text == NULL || strncmp(text, name, length) != 0 || text[length] != ':')
        return ncclSuccess;
    if (sscanf(text + length, ":%d", &nth) != 1)
        double_complain("HVD_DOUBLE_NCCL_FAIL has %s: expected NAME:NTH", text);
    pthread_mutex_lock(&lock);
    if (++calls == nth)
        result = ncclUnhandledCudaError;
    pthread_mutex_unlock(&lock);
    return result;
}

void double_wait_at_gate(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    const char *path = getenv("HVD_DOUBLE_NCCL_GATE");
    for (int waited_ms = 0; path != NULL && access(path, F_OK) != 0; waited_ms++) {
        if (waited_ms == 60000)
            double_complain("nobody has made %s", path);
        nanosleep(&pause, NULL);
    }
}

/* ---- libcuda ---------------------------------------------------------------------------------------- */

void *double_cuda_function(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *function = library != NULL ? dlsym(library, name) : NULL;
    if (function == NULL)
        double_complain("%s is not there: the program has not loaded libcuda.so.1", name);
    return function;
}

void double_launch(void *stream, void (*function)(void *), void *arg)
{
    CUresult (*launch)(CUstream, CUhostFn, void *) =
        (CUresult(*)(CUstream, CUhostFn, void *))double_cuda_function("cuLaunchHostFunc");
    CUresult result = launch(stream, function, arg);
    if (result != CUDA_SUCCESS)
        double_complain("the stream takes no work: %d", (int)result);
}

bool double_own_by_graph(void *stream, void (*destroy)(void *), void *arg)
{
    bool (*own)(CUstream, void (*)(void *), void *) =
        (bool (*)(CUstream, void (*)(void *), void *))double_cuda_function("cuDoubleOwnByGraph");
    return own(stream, destroy, arg);
}

int double_device(void)
{
    CUresult (*get_device)(CUdevice *) = (CUresult(*)(CUdevice *))double_cuda_function("cuCtxGetDevice");
    CUdevice device = 0;
    if (get_device(&device) != CUDA_SUCCESS)
        double_complain("this thread has no current device");
    return device;
}

void double_bus_id(char *text, int bytes, int device)
{
    CUresult (*get_id)(char *, int, CUdevice) =
        (CUresult(*)(char *, int, CUdevice))double_cuda_function("cuDeviceGetPCIBusId");
    if (get_id(text, bytes, device) != CUDA_SUCCESS)
        double_complain("device %d has no PCI address", device);
}

void double_check_memory(const char *what, const void *memory, int64_t bytes, int device)
{
    CUresult (*ask)(unsigned, CUpointer_attribute *, void **, CUdeviceptr) = (CUresult(*)(
        unsigned, CUpointer_attribute *, void **, CUdeviceptr))double_cuda_function("cuPointerGetAttributes");
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned type = 0;
    int owner = -1;
    CUdeviceptr begin = 0;
    size_t length = 0;
    void *values[] = {&type, &owner, &begin, &length};
    if (ask(4, attributes, values, (CUdeviceptr)(uintptr_t)memory) != CUDA_SUCCESS ||
        type != CU_MEMORYTYPE_DEVICE)
        double_complain("%s: %p is no memory of a device", what, memory);
    if (owner != device)
        double_complain("%s: %p is memory of device %d, and the communicator's is %d", what, memory, owner,
                        device);
    int64_t left = (int64_t)(begin + length - (CUdeviceptr)(uintptr_t)memory);
    if (bytes > left)
        double_complain("%s: %lld bytes at %p, but the allocation ends after %lld", what, (long long)bytes,
                        memory, (long long)left);
}
