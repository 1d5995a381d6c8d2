/* nccl_team.c: the communicator of a process set: made without waiting, watched, given up. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/nccl/nccl_team.h"
#include "base/clock.h"
#include "cuda/device.h"
#include "cuda/driver_calls.h"

/* How long a lost member's name may take to come from control. */
#define NAME_US INT64_C(3000000)

/* How long the members may take to say good-bye to each other. */
#define FINALIZE_US INT64_C(5000000)

/* A card, in 64-bit words. */
enum { CARD_ID, CARD_GPU = sizeof(ncclUniqueId) / 8, CARD_NODE, CARD_VERSION, CARD_WORDS };
_Static_assert((int)CARD_WORDS == NCCL_CARD_WORDS, "a card has another length");

int nccl_team_create(const struct nccl *nccl, const struct cuda_device *device, const struct team *members,
                     int node, struct nccl_team **teamp, struct hvd_error *err)
{
    struct nccl_team *team = calloc(1, sizeof(*team));
    if (team == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*team));
    *team = (struct nccl_team){.nccl = nccl, .device = device, .members = *members, .node = node};
    *teamp = team;
    return HVD_OK;
}

/* ---- Cards ---- */

/* The GPU's PCI address, by which the members see that two of them have the same one. */
static int gpu_number(const struct nccl_team *team, int64_t *numberp, struct hvd_error *err)
{
    const struct cuda_driver *driver = team->device->driver;
    char text[32] = "";
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned slot = 0;
    CUdevice number = 0;
    CUresult result = driver->cuDeviceGet(&number, team->device->ordinal);
    if (result == CUDA_SUCCESS)
        result = driver->cuDeviceGetPCIBusId(text, (int)sizeof(text), number);
    if (result != CUDA_SUCCESS)
        return cuda_error(driver, result, err, "GPU %d does not say its PCI address", team->device->ordinal);
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return error_set(err, HVD_ERR_SYSTEM, "GPU %d has the PCI address \"%s\", which has another form",
                         team->device->ordinal, text);
    *numberp = (int64_t)domain << 16 | (int64_t)bus << 8 | slot;
    return HVD_OK;
}

int nccl_team_write_card(const struct nccl_team *team, int64_t card[NCCL_CARD_WORDS], struct hvd_error *err)
{
    memset(card, 0, NCCL_CARD_WORDS * sizeof(*card));
    card[CARD_NODE] = team->node;
    card[CARD_VERSION] = team->nccl->version;
    if (team->members.rank == 0) {
        ncclUniqueId id;
        ncclResult_t result = team->nccl->ncclGetUniqueId(&id);
        if (result != ncclSuccess)
            return nccl_error(team->nccl, NULL, result, err, "NCCL cannot wait for the other ranks");
        memcpy(&card[CARD_ID], &id, sizeof(id));
    }
    return gpu_number(team, &card[CARD_GPU], err);
}

static int check_pair(const int64_t *a, const int64_t *b, int rank_a, int rank_b, struct hvd_error *err)
{
    if (a[CARD_VERSION] != b[CARD_VERSION])
        return error_set(err, HVD_ERR_UNSUPPORTED,
                         "rank %d has NCCL %d and rank %d has NCCL %d, which do not speak to each other; "
                         "install the same on all nodes",
                         rank_a, (int)a[CARD_VERSION], rank_b, (int)b[CARD_VERSION]);
    if (a[CARD_NODE] != b[CARD_NODE] || a[CARD_GPU] != b[CARD_GPU])
        return HVD_OK;
    return error_set(
        err, HVD_ERR_UNSUPPORTED,
        "ranks %d and %d have the same GPU, which NCCL does not take; start one rank for each GPU", rank_a,
        rank_b);
}

struct card_place {
    const int64_t *card;
    int member;
};

/* By node and GPU, so that those with the same GPU are neighbours. */
static int compare_cards(const void *left, const void *right)
{
    const struct card_place *a = left;
    const struct card_place *b = right;
    if (a->card[CARD_NODE] != b->card[CARD_NODE])
        return a->card[CARD_NODE] < b->card[CARD_NODE] ? -1 : 1;
    if (a->card[CARD_GPU] != b->card[CARD_GPU])
        return a->card[CARD_GPU] < b->card[CARD_GPU] ? -1 : 1;
    return (a->member > b->member) - (a->member < b->member);
}

static int check_cards(const struct nccl_team *team, const int64_t *cards, struct hvd_error *err)
{
    int size = team->members.size;
    int rc = HVD_OK;
    struct card_place *places = calloc((size_t)size, sizeof(*places));
    if (places == NULL)
        return error_set_errno(err, "no memory for the cards of %d members", size);
    for (int member = 0; member < size; member++)
        places[member] = (struct card_place){cards + (int64_t)member * CARD_WORDS, member};
    qsort(places, (size_t)size, sizeof(*places), compare_cards);
    for (int i = 1; i < size && rc == HVD_OK; i++)
        rc = check_pair(places[i - 1].card, places[i].card, team->members.ranks[places[i - 1].member],
                        team->members.ranks[places[i].member], err);
    free(places);
    return rc;
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
    int rc = check_cards(team, cards, err);
    if (rc == HVD_OK)
        rc = cuda_device_enter(team->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    memcpy(&id, cards + CARD_ID, sizeof(id));
    ncclResult_t result =
        team->nccl->ncclCommInitRankConfig(&team->comm, team->members.size, id, team->members.rank, &config);
    cuda_device_leave(team->device, mode);
    if (is_bad(result))
        return nccl_error(team->nccl, NULL, result, err, "process set %d gets no communicator",
                          team->members.set);
    team->connection = CONNECTING;
    return HVD_OK;
}

static void log_connected(const struct nccl_team *team)
{
    if (team->members.rank == 0)
        log_write(team->nccl->log, LOG_INFO, "nccl", "process set %d: NCCL %d.%d.%d connects %d GPUs",
                  team->members.set, team->nccl->version / 10000, team->nccl->version % 10000 / 100,
                  team->nccl->version % 100, team->members.size);
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
        return error_set(err, HVD_ERR_STATE, "NCCL was given up for process set %d", team->members.set);
    ncclResult_t result = team->nccl->ncclCommGetAsyncError(team->comm, &state);
    if (is_bad(result))
        state = result;
    if (state == ncclInProgress || may_be_named(team, state))
        return HVD_IN_PROGRESS;
    if (state != ncclSuccess)
        return nccl_error(team->nccl, team->comm, state, err, "process set %d: GPUs %s", team->members.set,
                          team->connection == CONNECTING ? "cannot be connected" : "have lost each other");
    if (team->connection == CONNECTING)
        log_connected(team);
    team->connection = CONNECTED;
    return HVD_OK;
}

int nccl_team_start(struct nccl_team *team, const struct backend_batch *batch, struct CUstream_st *stream,
                    struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_device_enter(team->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    ncclResult_t result = nccl_put(team->nccl, team->comm, &team->members, batch, stream);
    cuda_device_leave(team->device, mode);
    if (is_bad(result) && !may_be_named(team, result))
        return nccl_error(team->nccl, team->comm, result, err, "process set %d: a batch cannot be launched",
                          team->members.set);
    return HVD_OK;
}

/* ---- Ends ---- */

void nccl_team_abort(struct nccl_team *team)
{
    int mode = 0;
    if (team == NULL || team->comm == NULL || team->connection == GIVEN_UP)
        return;
    team->connection = GIVEN_UP;
    if (cuda_device_enter(team->device, &mode, NULL) != HVD_OK)
        return;
    team->nccl->ncclCommAbort(team->comm);
    cuda_device_leave(team->device, mode);
    team->comm = NULL;
    team->registration = NULL;
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
    if (team->connection != CONNECTED || cuda_device_enter(team->device, &mode, NULL) != HVD_OK)
        return false;
    nccl_team_deregister(team);
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
    free(team);
}
