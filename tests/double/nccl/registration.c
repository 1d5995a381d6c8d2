/* registration.c: memory that NCCL allocates, and memory that is registered with a communicator. */
#include "double.h"

#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct registration {
    struct registration *next;
    const char *memory;
    int64_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int registered; /* in all communicators */

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    CUresult (*allocate)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))double_cuda_function("cuMemAlloc_v2");
    CUdeviceptr address = 0;
    if (double_call("ncclMemAlloc") != ncclSuccess || allocate(&address, bytes) != CUDA_SUCCESS)
        return ncclUnhandledCudaError;
    *memory = (void *)(uintptr_t)address;
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *memory)
{
    CUresult (*release)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))double_cuda_function("cuMemFree_v2");
    pthread_mutex_lock(&lock);
    if (registered > 0)
        double_complain("ncclMemFree: communicators still have %d registrations", registered);
    pthread_mutex_unlock(&lock);
    return release((CUdeviceptr)(uintptr_t)memory) == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    const char *wanted = getenv("NCCL_LOCAL_REGISTER");
    double_check_comm(comm, "ncclCommRegister");
    double_check_memory("ncclCommRegister", memory, (int64_t)bytes, comm->device);
    ncclResult_t result = double_call("ncclCommRegister");
    *handle = NULL;
    if (result != ncclSuccess || (wanted != NULL && strcmp(wanted, "0") == 0))
        return result;
    struct registration *made = malloc(sizeof(*made));
    if (made == NULL)
        double_complain("this machine has no memory for a registration");
    *made = (struct registration){comm->registrations, memory, (int64_t)bytes};
    comm->registrations = made;
    *handle = made;
    pthread_mutex_lock(&lock);
    registered++;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static void forget(struct registration **at)
{
    struct registration *gone = *at;
    *at = gone->next;
    free(gone);
    pthread_mutex_lock(&lock);
    registered--;
    pthread_mutex_unlock(&lock);
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    struct registration **at = &comm->registrations;
    double_check_comm(comm, "ncclCommDeregister");
    if (atomic_load(&comm->in_flight) > 0)
        double_complain("ncclCommDeregister: the communicator is still at work");
    while (*at != NULL && *at != handle)
        at = &(*at)->next;
    if (*at == NULL)
        double_complain("ncclCommDeregister: %p is not registered", handle);
    forget(at);
    return double_call("ncclCommDeregister");
}

int64_t double_registered_at(const struct ncclComm *comm, const void *memory, int64_t bytes)
{
    const char *begin = memory;
    for (const struct registration *at = comm->registrations; at != NULL; at = at->next)
        if (begin >= at->memory && begin + bytes <= at->memory + at->bytes)
            return begin - at->memory;
    return DOUBLE_UNREGISTERED;
}

void double_forget_registrations(ncclComm_t comm)
{
    while (comm->registrations != NULL)
        forget(&comm->registrations);
}
