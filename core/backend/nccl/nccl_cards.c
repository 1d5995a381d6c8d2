/* nccl_cards.c: what the members tell each other before NCCL connects them, and whether it can. */
#include "backend/nccl/nccl_team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stack.h"
#include "cuda/device.h"
#include "cuda/driver_calls.h"

/* A card, in 64-bit words. */
enum { CARD_ID, CARD_GPU = sizeof(ncclUniqueId) / 8, CARD_NODE, CARD_VERSION, CARD_WORDS };
_Static_assert((int)CARD_WORDS == NCCL_CARD_WORDS, "a card has another length");

/* The GPU's PCI address, by which the members see that two of them have the same one. */
static int gpu_number(const struct nccl_team *team, int64_t *numberp, struct hvd_error *err)
{
    const struct cuda_driver *driver = team->device->driver;
    char text[32] = "";
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned slot = 0;
    CUresult result = driver->cuDeviceGetPCIBusId(text, (int)sizeof(text), team->device->number);
    if (result != CUDA_SUCCESS)
        return cuda_error(driver, result, err, "GPU %d does not say its PCI address", team->device->ordinal);
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return error_set(err, HVD_ERR_SYSTEM, "GPU %d has the PCI address \"%s\", which has another form",
                         team->device->ordinal, text);
    *numberp = (int64_t)domain << 16 | (int64_t)bus << 8 | slot;
    return HVD_OK;
}

/* ---- The unique id ---- */

/* The last of the two that is done with it, the thread or the team, frees it. */
struct nccl_id {
    ncclResult_t (*get)(ncclUniqueId *id);
    ncclUniqueId id;
    ncclResult_t result;
    _Atomic bool given;
    _Atomic int holders;
};

static void release_id(struct nccl_id *id)
{
    if (atomic_fetch_sub(&id->holders, 1) == 1)
        free(id);
}

static void *ask_for_id(void *arg)
{
    struct nccl_id *id = arg;
    id->result = id->get(&id->id);
    atomic_store_explicit(&id->given, true, memory_order_release);
    release_id(id);
    return NULL;
}

static int start_asking(const struct nccl *nccl, struct nccl_id **idp, struct hvd_error *err)
{
    pthread_t thread;
    struct nccl_id *id = calloc(1, sizeof(*id));
    if (id == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*id));
    id->get = nccl->ncclGetUniqueId;
    atomic_store(&id->holders, 2);
    int rc = stack_create_thread(&thread, ask_for_id, id);
    if (rc != 0) {
        free(id);
        return error_set(err, HVD_ERR_NO_MEMORY,
                         "cannot start a thread that asks NCCL for an id: pthread_create returned %d", rc);
    }
    pthread_detach(thread);
    *idp = id;
    return HVD_OK;
}

static int get_id(struct nccl_team *team, int64_t *words, struct hvd_error *err)
{
    int rc = team->id == NULL ? start_asking(team->nccl, &team->id, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    if (!atomic_load_explicit(&team->id->given, memory_order_acquire))
        return HVD_IN_PROGRESS;
    if (team->id->result != ncclSuccess)
        return nccl_error(team->nccl, NULL, team->id->result, err, "NCCL cannot wait for the other ranks");
    memcpy(words, &team->id->id, sizeof(team->id->id));
    return HVD_OK;
}

void nccl_id_forget(struct nccl_id *id)
{
    if (id != NULL)
        release_id(id);
}

/* ---- Cards ---- */

int nccl_team_write_card(struct nccl_team *team, int64_t card[NCCL_CARD_WORDS], struct hvd_error *err)
{
    memset(card, 0, NCCL_CARD_WORDS * sizeof(*card));
    card[CARD_NODE] = team->node;
    card[CARD_VERSION] = team->nccl->version;
    int rc = team->members.rank == 0 ? get_id(team, &card[CARD_ID], err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
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

int nccl_cards_check(const struct nccl_team *team, const int64_t *cards, struct hvd_error *err)
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

void nccl_cards_id(const int64_t *cards, ncclUniqueId *id)
{
    memcpy(id, cards + CARD_ID, sizeof(*id));
}
