/* registration.c: memory that NCCL allocates, and memory that is registered with a communicator. */
#include "double.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct registration {
    struct registration *next;
    const struct ncclComm *comm;
    const char *memory;
    int64_t bytes;
    int uses; /* by work in streams */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registration *registrations; /* of all communicators */

/* ---- Memory ---------------------------------------------------------------------------------------- */

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    CUresult (*allocate)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))double_cuda_function("cuMemAlloc_v2");
    CUdeviceptr address = 0;
    if (double_call("ncclMemAlloc") != ncclSuccess)
        return ncclUnhandledCudaError;
    double_spare_cuda(true);
    CUresult result = allocate(&address, bytes);
    double_spare_cuda(false);
    if (result != CUDA_SUCCESS)
        return ncclUnhandledCudaError;
    *memory = (void *)(uintptr_t)address;
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *memory)
{
    CUresult (*release)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))double_cuda_function("cuMemFree_v2");
    pthread_mutex_lock(&lock);
    for (const struct registration *at = registrations; at != NULL; at = at->next)
        if (at->memory == memory)
            double_complain("ncclMemFree: a communicator of %d ranks has %p registered", at->comm->size,
                            memory);
    pthread_mutex_unlock(&lock);
    if (double_call("ncclMemFree") != ncclSuccess)
        return ncclUnhandledCudaError;
    double_spare_cuda(true);
    CUresult result = release((CUdeviceptr)(uintptr_t)memory);
    double_spare_cuda(false);
    return result == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

/* ---- Registration ---------------------------------------------------------------------------------- */

static struct registration *find_locked(const struct ncclComm *comm, const void *memory)
{
    const char *begin = memory;
    struct registration *at = registrations;
    while (at != NULL && (at->comm != comm || begin < at->memory || begin >= at->memory + at->bytes))
        at = at->next;
    return at;
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
    pthread_mutex_lock(&lock);
    if (find_locked(comm, memory) != NULL)
        double_complain("ncclCommRegister: %p is registered already", memory);
    *made = (struct registration){registrations, comm, memory, (int64_t)bytes, 0};
    registrations = made;
    pthread_mutex_unlock(&lock);
    *handle = made;
    return ncclSuccess;
}

static void forget_locked(struct registration **at)
{
    struct registration *gone = *at;
    *at = gone->next;
    free(gone);
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    struct registration **at = &registrations;
    double_check_comm(comm, "ncclCommDeregister");
    if (comm->progresses || comm->splitting)
        double_complain("ncclCommDeregister: the communicator is still at work");
    pthread_mutex_lock(&lock);
    while (*at != NULL && (*at != handle || (*at)->comm != comm))
        at = &(*at)->next;
    if (*at == NULL)
        double_complain("ncclCommDeregister: %p is not registered", handle);
    if ((*at)->uses > 0)
        double_complain("ncclCommDeregister: work in a stream uses the memory");
    forget_locked(at);
    pthread_mutex_unlock(&lock);
    return double_call("ncclCommDeregister");
}

int64_t double_registered_at(const struct ncclComm *comm, const void *memory, int64_t bytes)
{
    const char *begin = memory;
    pthread_mutex_lock(&lock);
    const struct registration *found = find_locked(comm, memory);
    bool inside = found != NULL && begin + bytes <= found->memory + found->bytes;
    int64_t at = inside ? begin - found->memory : DOUBLE_UNREGISTERED;
    pthread_mutex_unlock(&lock);
    return at;
}

struct registration *double_use(const struct ncclComm *comm, const void *memory)
{
    pthread_mutex_lock(&lock);
    struct registration *found = find_locked(comm, memory);
    if (found != NULL)
        found->uses++;
    pthread_mutex_unlock(&lock);
    return found;
}

void double_release(struct registration *registration)
{
    if (registration == NULL)
        return;
    pthread_mutex_lock(&lock);
    registration->uses--;
    pthread_mutex_unlock(&lock);
}

int double_held_registrations(void)
{
    int held = 0;
    pthread_mutex_lock(&lock);
    for (const struct registration *at = registrations; at != NULL; at = at->next)
        held++;
    pthread_mutex_unlock(&lock);
    return held;
}

void double_forget_registrations(const struct ncclComm *comm)
{
    struct registration **at = &registrations;
    pthread_mutex_lock(&lock);
    while (*at != NULL) {
        if ((*at)->comm == comm)
            forget_locked(at);
        else
            at = &(*at)->next;
    }
    pthread_mutex_unlock(&lock);
}
