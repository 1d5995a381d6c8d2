/* communicator.c: communicators: how ranks find each other, and how they part. */
#define _GNU_SOURCE
#include "double.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *comms; /* all that ever were, so that a late use is found out */
static char last_error[200];

ncclResult_t ncclGetVersion(int *version)
{
    *version = double_number("HVD_DOUBLE_NCCL_VERSION", 22809);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (unsigned)result < sizeof(texts) / sizeof(texts[0]) ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return last_error;
}

/* ---- Making one ------------------------------------------------------------------------------------- */

/* The memory lives as long as a process has it open: nothing is left behind. */
struct place double_new_place(int size)
{
    struct place place = {.pid = getpid(), .fd = memfd_create("double of nccl", MFD_CLOEXEC)};
    if (place.fd < 0 || ftruncate(place.fd, sizeof(struct shared)) < 0)
        double_complain("no memory for a communicator of %d ranks: %s", size, strerror(errno));
    return place;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    double_wait_at_gate();
    if (double_call("ncclGetUniqueId") != ncclSuccess)
        return ncclUnhandledCudaError;
    struct place place = double_new_place(RANKS_MAX);
    memset(id, 0, sizeof(*id));
    memcpy(id, &place, sizeof(place));
    return ncclSuccess;
}

static struct shared *map_shared(const struct place *place)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)place->pid, place->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        double_complain("the communicator's place is %s: %s", path, strerror(errno));
    void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        double_complain("%s cannot be mapped: %s", path, strerror(errno));
    return memory;
}

ncclComm_t double_join(const struct place *place, int rank, int size, int device)
{
    struct ncclComm *comm = calloc(1, sizeof(*comm));
    if (comm == NULL)
        double_complain("this machine has no memory for a communicator");
    comm->shared = map_shared(place);
    comm->rank = rank;
    comm->size = size;
    comm->device = device;
    comm->shared->pids[rank] = getpid();
    double_bus_id(comm->shared->bus_ids[rank], sizeof(comm->shared->bus_ids[rank]), device);
    atomic_fetch_add(&comm->shared->joined, 1);
    pthread_mutex_lock(&lock);
    comm->next = comms;
    comms = comm;
    pthread_mutex_unlock(&lock);
    return comm;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *commp, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    struct place place;
    if (config == NULL || config->magic != 0xcafebeef || config->size < sizeof(size_t) ||
        config->blocking != 0)
        double_complain("ncclCommInitRankConfig: the configuration is not one that does not wait");
    if (size > RANKS_MAX || rank < 0 || rank >= size)
        double_complain("ncclCommInitRankConfig: rank %d of %d", rank, size);
    if (double_call("ncclCommInitRankConfig") != ncclSuccess)
        return ncclUnhandledCudaError;
    memcpy(&place, &id, sizeof(place));
    *commp = double_join(&place, rank, size, double_device());
    return ncclInProgress;
}

/* ---- Its state -------------------------------------------------------------------------------------- */

bool double_is_ready(const struct ncclComm *comm)
{
    return atomic_load(&comm->shared->joined) >= comm->size;
}

/* One that ended and is not reaped yet is dead too. */
static bool is_alive(pid_t pid)
{
    char path[64];
    char state = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool known = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    fclose(file);
    return !known || (state != 'Z' && state != 'X');
}

bool double_peer_died(const struct ncclComm *comm)
{
    for (int rank = 0; rank < comm->size; rank++) {
        pid_t pid = comm->shared->pids[rank];
        if (pid > 1 && !is_alive(pid))
            return true;
    }
    return false;
}

void double_check_comm(ncclComm_t comm, const char *name)
{
    pthread_mutex_lock(&lock);
    struct ncclComm *known = comms;
    while (known != NULL && known != comm)
        known = known->next;
    pthread_mutex_unlock(&lock);
    if (known == NULL)
        double_complain("%s: %p is no communicator", name, (void *)comm);
    if (comm->destroyed)
        double_complain("%s: the communicator was destroyed or aborted", name);
}

static bool shares_gpu(const struct ncclComm *comm)
{
    for (int rank = 0; rank < comm->size; rank++)
        if (rank != comm->rank && strcmp(comm->shared->bus_ids[rank], comm->shared->bus_ids[comm->rank]) == 0)
            return true;
    return false;
}

static bool may_connect(void)
{
    return double_number("HVD_DOUBLE_NCCL_HANG", -1) != 0;
}

static ncclResult_t state_of(struct ncclComm *comm)
{
    bool alive = atomic_load(&comm->error) == ncclSuccess;
    if (alive && comm->finalizing)
        return atomic_load(&comm->shared->left) < comm->size || atomic_load(&comm->in_graphs) > 0
                   ? ncclInProgress
                   : ncclSuccess;
    if (alive && double_peer_died(comm))
        atomic_store(&comm->error, ncclRemoteError);
    else if (alive && (!double_is_ready(comm) || !may_connect()))
        return ncclInProgress;
    else if (alive && shares_gpu(comm)) {
        snprintf(last_error, sizeof(last_error), "Duplicate GPU detected : rank %d", comm->rank);
        return ncclInvalidUsage;
    }
    return (ncclResult_t)atomic_load(&comm->error);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    double_check_comm(comm, "ncclCommGetAsyncError");
    if (double_call("ncclCommGetAsyncError") != ncclSuccess)
        return ncclUnhandledCudaError;
    *state = state_of(comm);
    if (*state == ncclSuccess && (comm->progresses || !double_advance_split(comm)))
        *state = ncclInProgress;
    comm->progresses = false;
    return ncclSuccess;
}

/* ---- Its end ---------------------------------------------------------------------------------------- */

/* As NCCL's, until the last graph is destroyed, too, be it for ever. */
static void wait_idle(struct ncclComm *comm)
{
    const struct timespec pause = {.tv_nsec = 50000};
    while (atomic_load(&comm->in_flight) > 0 || atomic_load(&comm->in_graphs) > 0)
        nanosleep(&pause, NULL);
}

static void unmap(struct ncclComm *comm)
{
    if (getenv("HVD_DOUBLE_NCCL_COUNTS") != NULL)
        fprintf(stderr, "rank %d of %d: %d launches, %d operations in registered memory\n", comm->rank,
                comm->size, comm->launches, comm->registered_operations);
    comm->destroyed = true;
    double_forget_registrations(comm);
    munmap(comm->shared, sizeof(*comm->shared));
    comm->shared = NULL;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    double_check_comm(comm, "ncclCommFinalize");
    if (double_call("ncclCommFinalize") != ncclSuccess)
        return ncclUnhandledCudaError;
    if (comm->finalizing)
        double_complain("ncclCommFinalize: twice");
    comm->finalizing = true;
    atomic_fetch_add(&comm->shared->left, 1);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    double_check_comm(comm, "ncclCommDestroy");
    if (!comm->finalizing || atomic_load(&comm->shared->left) < comm->size)
        double_complain("ncclCommDestroy: not all ranks have finalized");
    if (double_call("ncclCommDestroy") != ncclSuccess)
        return ncclUnhandledCudaError;
    wait_idle(comm);
    unmap(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    double_check_comm(comm, "ncclCommAbort");
    atomic_store(&comm->aborted, true);
    wait_idle(comm);
    unmap(comm);
    return ncclSuccess;
}

int ncclDoubleHeld(void)
{
    int held = double_held_registrations();
    pthread_mutex_lock(&lock);
    for (const struct ncclComm *comm = comms; comm != NULL; comm = comm->next)
        held += !comm->destroyed && !comm->aborted;
    pthread_mutex_unlock(&lock);
    return held;
}

__attribute__((destructor)) static void report_leaks(void)
{
    for (const struct ncclComm *comm = comms; comm != NULL; comm = comm->next)
        if (!comm->destroyed && !comm->aborted)
            double_report("a communicator of %d ranks was neither destroyed nor aborted", comm->size);
}
