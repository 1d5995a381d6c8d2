/* nccl_memory.c: memory from NCCL, and its registration with communicators, where the library knows of that.
 */
#include "backend/nccl/nccl_team.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cuda/device.h"

/* How long communicators may take to end. */
#define ENDING_US INT64_C(2000000)

/* hvd works without, only slower. */
static void log_refused(const struct nccl *nccl, ncclComm_t comm, ncclResult_t result, const char *what,
                        int64_t bytes)
{
    struct hvd_error why;
    nccl_error(nccl, comm, result, &why, "%s %lld bytes on a GPU", what, (long long)bytes);
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

/* A communicator that a graph still holds may have it registered. */
static bool is_held_by_graphs(const struct nccl *nccl)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int64_t deadline_us = clock_us() + ENDING_US;
    while (atomic_load(&nccl->ending) > 0 && clock_us() < deadline_us)
        nanosleep(&pause, NULL);
    return atomic_load(&nccl->ending) > 0;
}

void nccl_memory_destroy(const struct nccl *nccl, void *memory)
{
    if (memory != NULL && !is_held_by_graphs(nccl))
        nccl->ncclMemFree(memory);
}

/* ---- Registration ------------------------------------------------------------------------------ */

static void *register_memory(const struct nccl_team *team, void *memory, int64_t bytes)
{
    void *handle = NULL;
    int mode = 0;
    if (cuda_device_enter(team->device, &mode, NULL) != HVD_OK)
        return NULL;
    ncclResult_t result = team->nccl->ncclCommRegister(team->comm, memory, (size_t)bytes, &handle);
    cuda_device_leave(team->device, mode);
    if (result == ncclSuccess)
        return handle; /* NULL: NCCL_LOCAL_REGISTER=0 */
    log_refused(team->nccl, team->comm, result, "does not register", bytes);
    return NULL;
}

bool nccl_team_register(struct nccl_team *team, void *memory, int64_t bytes)
{
    struct registration *made = malloc(sizeof(*made));
    if (made == NULL)
        return false;
    *made = (struct registration){team->registrations, memory, bytes, register_memory(team, memory, bytes)};
    team->registrations = made;
    return made->handle != NULL;
}

static struct registration *find_registration(const struct nccl_team *team, const void *memory)
{
    struct registration *registration = team->registrations;
    while (registration != NULL && registration->memory != memory)
        registration = registration->next;
    return registration;
}

bool nccl_team_knows(const struct nccl_team *team, const void *memory)
{
    return find_registration(team, memory) != NULL;
}

bool nccl_team_reaches(const struct nccl_team *team, const void *address)
{
    const char *at = address;
    for (const struct registration *i = team->registrations; i != NULL; i = i->next)
        if (i->handle != NULL && at >= i->memory && at < i->memory + i->bytes)
            return true;
    return false;
}

static void deregister(const struct nccl_team *team, struct registration *registration)
{
    int mode = 0;
    if (registration->handle == NULL)
        return;
    cuda_device_enter(team->device, &mode, NULL); /* NCCL finds the device itself */
    team->nccl->ncclCommDeregister(team->comm, registration->handle);
    cuda_device_leave(team->device, mode);
    registration->handle = NULL;
}

void nccl_team_deregister(struct nccl_team *team, const void *memory)
{
    struct registration *registration = find_registration(team, memory);
    if (registration != NULL)
        deregister(team, registration);
}

void nccl_team_forget(struct nccl_team *team, const void *memory)
{
    struct registration *gone = find_registration(team, memory);
    struct registration **at = &team->registrations;
    if (gone == NULL)
        return;
    deregister(team, gone);
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone);
}

void nccl_team_deregister_all(struct nccl_team *team)
{
    for (struct registration *i = team->registrations; i != NULL; i = i->next)
        deregister(team, i);
}

void nccl_team_drop_registrations(struct nccl_team *team)
{
    while (team->registrations != NULL) {
        struct registration *gone = team->registrations;
        team->registrations = gone->next;
        free(gone);
    }
}
