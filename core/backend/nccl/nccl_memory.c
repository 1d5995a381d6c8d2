/* nccl_memory.c: memory from NCCL, and its registration with communicators, where the library knows of that.
 */
#include "backend/nccl/nccl_team.h"
#include "cuda/device.h"

/* hvd works without, only slower. */
static void log_refused(const struct nccl *nccl, ncclComm_t comm, ncclResult_t result, const char *what,
                        int64_t bytes)
{
    struct hvd_error why;
    nccl_error(nccl, comm, result, &why, "%s %lld bytes for a fusion buffer", what, (long long)bytes);
    log_write(nccl->log, LOG_INFO, "nccl", "%s", why.text);
}

void *nccl_memory_create(const struct nccl *nccl, const struct cuda_device *device, int64_t bytes)
{
    void *memory = NULL;
    int mode = 0;
    bool known = nccl->ncclMemAlloc != NULL && nccl->ncclMemFree != NULL && nccl->ncclCommRegister != NULL &&
                 nccl->ncclCommDeregister != NULL;
    if (!known || bytes == 0 || cuda_device_enter(device, &mode, NULL) != HVD_OK)
        return NULL;
    ncclResult_t result = nccl->ncclMemAlloc(&memory, (size_t)bytes);
    cuda_device_leave(device, mode);
    if (result == ncclSuccess)
        return memory;
    log_refused(nccl, NULL, result, "does not give", bytes);
    return NULL;
}

void nccl_memory_destroy(const struct nccl *nccl, void *memory)
{
    if (memory != NULL)
        nccl->ncclMemFree(memory);
}

bool nccl_team_register(struct nccl_team *team, void *memory, int64_t bytes)
{
    int mode = 0;
    if (cuda_device_enter(team->device, &mode, NULL) != HVD_OK)
        return false;
    ncclResult_t result =
        team->nccl->ncclCommRegister(team->comm, memory, (size_t)bytes, &team->registration);
    cuda_device_leave(team->device, mode);
    if (result == ncclSuccess)
        return team->registration != NULL; /* NULL: NCCL_LOCAL_REGISTER=0 */
    log_refused(team->nccl, team->comm, result, "does not register", bytes);
    team->registration = NULL;
    return false;
}

void nccl_team_deregister(struct nccl_team *team)
{
    int mode = 0;
    if (team->registration == NULL || cuda_device_enter(team->device, &mode, NULL) != HVD_OK)
        return;
    team->nccl->ncclCommDeregister(team->comm, team->registration);
    cuda_device_leave(team->device, mode);
    team->registration = NULL;
}
