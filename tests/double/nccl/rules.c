/* rules.c: what tests ask for, and the double of libcuda beneath. */
#include "double.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char double_library[] = "libnccl";
const char double_fail_variable[] = "HVD_DOUBLE_NCCL_FAIL";
const int double_fail_code = ncclUnhandledCudaError;

ncclResult_t double_call(const char *name)
{
    return (ncclResult_t)double_chosen_error(name);
}

bool ncclDoubleFail(const char *name, int nth)
{
    return double_choose(name, nth, double_fail_code);
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

void double_spare_cuda(bool yes)
{
    void (*function)(bool) = (void (*)(bool))double_cuda_function("cuDoubleSpare");
    function(yes);
}

void double_launch(void *stream, void (*function)(void *), void *arg)
{
    CUresult (*launch)(CUstream, CUhostFn, void *) =
        (CUresult(*)(CUstream, CUhostFn, void *))double_cuda_function("cuLaunchHostFunc");
    double_spare_cuda(true);
    CUresult result = launch(stream, function, arg);
    double_spare_cuda(false);
    if (result != CUDA_SUCCESS)
        double_complain("the stream takes no work: %d", (int)result);
}

bool double_own_by_graph(void *stream, void (*destroy)(void *), void *arg)
{
    bool (*own)(CUstream, void (*)(void *), void *) =
        (bool (*)(CUstream, void (*)(void *), void *))double_cuda_function("cuDoubleOwnByGraph");
    return own(stream, destroy, arg);
}

char *double_reach(const void *memory)
{
    void *(*find)(const void *) = (void *(*)(const void *))double_cuda_function("cuDoubleReach");
    return find(memory);
}

int double_device(void)
{
    CUresult (*get_device)(CUdevice *) = (CUresult(*)(CUdevice *))double_cuda_function("cuCtxGetDevice");
    CUdevice device = 0;
    double_spare_cuda(true);
    CUresult result = get_device(&device);
    double_spare_cuda(false);
    if (result != CUDA_SUCCESS)
        double_complain("this thread has no current device");
    return device;
}

void double_bus_id(char *text, int bytes, int device)
{
    CUresult (*get_id)(char *, int, CUdevice) =
        (CUresult(*)(char *, int, CUdevice))double_cuda_function("cuDeviceGetPCIBusId");
    double_spare_cuda(true);
    CUresult result = get_id(text, bytes, device);
    double_spare_cuda(false);
    if (result != CUDA_SUCCESS)
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
    double_spare_cuda(true);
    CUresult result = ask(4, attributes, values, (CUdeviceptr)(uintptr_t)memory);
    double_spare_cuda(false);
    if (result != CUDA_SUCCESS || type != CU_MEMORYTYPE_DEVICE)
        double_complain("%s: %p is no memory of a device", what, memory);
    if (owner != device)
        double_complain("%s: %p is memory of device %d, and the communicator's is %d", what, memory, owner,
                        device);
    int64_t left = (int64_t)(begin + length - (CUdeviceptr)(uintptr_t)memory);
    if (bytes > left)
        double_complain("%s: %lld bytes at %p, but the allocation ends after %lld", what, (long long)bytes,
                        memory, (long long)left);
}
