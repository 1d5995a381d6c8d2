/* nccl_team.c: the communicator of a process set: made without waiting, watched, given up. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backend/nccl/nccl_team.h"
#include "base/clock.h"
#include "base/stack.h"
#include "cuda/device.h"

/* How long a lost member's name may take to come from control. */
#define NAME_US INT64_C(3000000)

/* How long finalizing a communicator may wait for its members. */
#define FINALIZE_US INT64_C(5000000)

int nccl_team_create(const struct nccl *nccl, const struct cuda_device *device, const struct team *members,
                     int node, struct nccl_team **teamp, struct hvd_error *err)
{
    struct nccl_team *team = calloc(1, sizeof(*team));
    if (team == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*team));
    *team = (struct nccl_team){.nccl = nccl, .device = device, .members = *members, .node = node};
    if (members->set == NCCL_PAIR)
        snprintf(team->name, sizeof(team->name), "messages of ranks %d and %d", members->ranks[0],
                 members->ranks[1]);
    else
        snprintf(team->name, sizeof(team->name), "process set %d", members->set);
    *teamp = team;
    return HVD_OK;
}

/* ---- Connecting ---- */

static bool is_bad(ncclResult_t result)
{
    return result != ncclSuccess && result != ncclInProgress;
}

int nccl_team_connect(struct nccl_team *team, const int64_t *cards, struct hvd_error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    int mode = 0;
    config.blocking = 0;
    int rc = nccl_cards_check(team, cards, err);
    if (rc == HVD_OK)
        rc = cuda_device_enter(team->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    nccl_cards_id(cards, &id);
    ncclResult_t result =
        team->nccl->ncclCommInitRankConfig(&team->comm, team->members.size, id, team->members.rank, &config);
    cuda_device_leave(team->device, mode);
    if (is_bad(result))
        return nccl_error(team->nccl, NULL, result, err, "%s: no communicator", team->name);
    team->connection = CONNECTING;
    return HVD_OK;
}

/* ---- Splitting ---- */

int nccl_team_split(struct nccl_team *team, int rank, struct hvd_error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int mode = 0;
    config.blocking = 0;
    int rc = cuda_device_enter(team->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    team->split_comm = NULL;
    team->splits = true;
    ncclResult_t result = team->nccl->ncclCommSplit(team->comm, rank < 0 ? NCCL_SPLIT_NOCOLOR : 0, rank,
                                                    &team->split_comm, &config);
    cuda_device_leave(team->device, mode);
    return is_bad(result) ? nccl_error(team->nccl, team->comm, result, err, "%s cannot be split", team->name)
                          : HVD_OK;
}

int nccl_team_take_split(struct nccl_team *team, const struct team *members, struct nccl_team **teamp,
                         struct hvd_error *err)
{
    struct nccl_team *made = NULL;
    int rc = nccl_team_create(team->nccl, team->device, members, team->node, &made, err);
    if (rc != HVD_OK)
        return rc;
    made->comm = team->split_comm;
    made->connection = CONNECTING;
    team->split_comm = NULL;
    *teamp = made;
    return HVD_OK;
}

/* ---- Its state ---- */

static void log_connected(const struct nccl_team *team)
{
    if (team->members.rank == 0)
        log_write(team->nccl->log, LOG_INFO, "nccl", "%s: NCCL %d.%d.%d connects %d GPUs", team->name,
                  team->nccl->version / 10000, team->nccl->version % 10000 / 100, team->nccl->version % 100,
                  team->members.size);
}

/* Only control knows which rank was lost: give it the time to say so first. */
static bool may_be_named(struct nccl_team *team, ncclResult_t result)
{
    if (result != ncclRemoteError && result != ncclSystemError)
        return false;
    if (team->lost_at_us == 0)
        team->lost_at_us = clock_us();
    return clock_us() - team->lost_at_us < NAME_US;
}

int nccl_team_test(struct nccl_team *team, struct hvd_error *err)
{
    ncclResult_t state = ncclSuccess;
    if (team->connection != CONNECTING && team->connection != CONNECTED)
        return error_set(err, HVD_ERR_STATE, "NCCL was given up for %s", team->name);
    ncclResult_t result = team->nccl->ncclCommGetAsyncError(team->comm, &state);
    if (is_bad(result))
        state = result;
    if (state == ncclInProgress || may_be_named(team, state))
        return HVD_IN_PROGRESS;
    if (state != ncclSuccess)
        return nccl_error(team->nccl, team->comm, state, err, "%s: GPUs %s", team->name,
                          team->connection == CONNECTING ? "cannot be connected" : "have lost each other");
    if (team->connection == CONNECTING)
        log_connected(team);
    team->connection = CONNECTED;
    team->splits = false;
    return HVD_OK;
}

static int check_launch(struct nccl_team *team, ncclResult_t result, const char *what, struct hvd_error *err)
{
    if (!is_bad(result) || may_be_named(team, result))
        return HVD_OK;
    return nccl_error(team->nccl, team->comm, result, err, "%s: %s cannot be launched", team->name, what);
}

int nccl_team_start(struct nccl_team *team, const struct backend_batch *batches, int count,
                    struct CUstream_st *stream, struct hvd_error *err)
{
    const struct nccl_target target = {team->nccl, team->comm, &team->members, stream};
    int mode = 0;
    int rc = cuda_device_enter(team->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    ncclResult_t result = nccl_put(&target, batches, count);
    cuda_device_leave(team->device, mode);
    return check_launch(team, result, "a batch", err);
}

int nccl_team_move(struct nccl_team *team, const struct nccl_message *message, struct CUstream_st *stream,
                   struct hvd_error *err)
{
    const struct nccl *nccl = team->nccl;
    size_t bytes = (size_t)message->bytes;
    int peer = 1 - team->members.rank;
    int mode = 0;
    int rc = cuda_device_enter(team->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    ncclResult_t result = message->sends
                              ? nccl->ncclSend(message->memory, bytes, ncclInt8, peer, team->comm, stream)
                              : nccl->ncclRecv(message->memory, bytes, ncclInt8, peer, team->comm, stream);
    cuda_device_leave(team->device, mode);
    return check_launch(team, result, "a message", err);
}

/* ---- Ends ---- */

void nccl_team_captured(struct nccl_team *team)
{
    team->captured = true;
}

/* A communicator that graphs may hold: NCCL stops it at once, but returns only when they are destroyed. */
struct ending {
    struct nccl *nccl;
    struct cuda_device device;
    ncclComm_t comm;
};

static void *end_communicator(void *arg)
{
    struct ending *ending = arg;
    int mode = 0;
    cuda_device_enter(&ending->device, &mode, NULL); /* NCCL finds the device itself; it ends in any case */
    ending->nccl->ncclCommAbort(ending->comm);
    cuda_device_leave(&ending->device, mode);
    atomic_fetch_sub(&ending->nccl->ending, 1);
    nccl_close(ending->nccl);
    free(ending);
    return NULL;
}

/* The thread stays behind where a graph does. Without memory for it the communicator stays. */
static void abort_captured(struct nccl_team *team)
{
    pthread_t thread;
    struct ending *ending = malloc(sizeof(*ending));
    if (ending == NULL)
        return;
    *ending = (struct ending){nccl_hold(team->nccl), *team->device, team->comm};
    atomic_fetch_add(&ending->nccl->ending, 1);
    if (stack_create_thread(&thread, end_communicator, ending) == 0)
        pthread_detach(thread);
    team->comm = NULL;
    nccl_team_drop_registrations(team);
}

void nccl_team_abort(struct nccl_team *team)
{
    int mode = 0;
    if (team == NULL || team->comm == NULL || team->connection == GIVEN_UP)
        return;
    team->connection = GIVEN_UP;
    if (team->captured) {
        abort_captured(team);
        return;
    }
    cuda_device_enter(team->device, &mode, NULL); /* the same */
    team->nccl->ncclCommAbort(team->comm);
    if (team->split_comm != NULL)
        team->nccl->ncclCommAbort(team->split_comm);
    cuda_device_leave(team->device, mode);
    team->comm = team->split_comm = NULL;
    nccl_team_drop_registrations(team);
}

/* Wait until all members have come to the end. */
static bool finalize(struct nccl_team *team)
{
    const struct timespec pause = {.tv_nsec = 200000};
    int64_t deadline_us = clock_us() + FINALIZE_US;
    ncclResult_t state = team->nccl->ncclCommFinalize(team->comm);
    while (state == ncclInProgress && clock_us() < deadline_us) {
        nanosleep(&pause, NULL);
        if (team->nccl->ncclCommGetAsyncError(team->comm, &state) != ncclSuccess)
            return false;
    }
    return state == ncclSuccess;
}

static bool close_connected(struct nccl_team *team)
{
    int mode = 0;
    if (team->connection != CONNECTED || team->splits ||
        cuda_device_enter(team->device, &mode, NULL) != HVD_OK)
        return false;
    nccl_team_deregister_all(team);
    bool ended = finalize(team) && !is_bad(team->nccl->ncclCommDestroy(team->comm));
    cuda_device_leave(team->device, mode);
    return ended;
}

void nccl_team_destroy(struct nccl_team *team)
{
    if (team == NULL)
        return;
    if (!close_connected(team))
        nccl_team_abort(team);
    nccl_team_drop_registrations(team);
    nccl_id_forget(team->id);
    free(team);
}
