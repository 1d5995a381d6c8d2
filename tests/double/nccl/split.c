/* split.c: new communicators out of one, which all its ranks make together. */
#include "double.h"

#include <string.h>

static struct split_wish *wishes_of(const struct ncclComm *comm)
{
    return comm->shared->wishes[comm->splits % 2];
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
    double_check_comm(comm, "ncclCommSplit");
    if (config == NULL || config->magic != 0xcafebeef || config->blocking != 0)
        double_complain("ncclCommSplit: the configuration is not one that does not wait");
    if (!double_is_ready(comm) || comm->progresses || comm->splitting || atomic_load(&comm->in_flight) > 0)
        double_complain("ncclCommSplit: the communicator is still at work");
    ncclResult_t result = double_call("ncclCommSplit");
    if (result != ncclSuccess)
        return result;
    *newcomm = NULL;
    comm->splits++;
    comm->splitting = true;
    comm->split_to = newcomm;
    struct split_wish *own = &wishes_of(comm)[comm->rank];
    own->color = color;
    own->key = key;
    atomic_store(&own->is_placed, false);
    atomic_fetch_add(&comm->shared->wishes_made, 1);
    return ncclSuccess; /* as NCCL 2.28, which has only begun: its communicator says when it is done */
}

static bool comes_before(const struct split_wish *wishes, int a, int b)
{
    return wishes[a].key != wishes[b].key ? wishes[a].key < wishes[b].key : a < b;
}

/* Among the ranks that wish for the same color: how many there are, this rank's place, and who is first. */
struct split_place {
    int size, rank, first;
};

static struct split_place place_of(const struct ncclComm *comm, const struct split_wish *wishes)
{
    struct split_place place = {.first = comm->rank};
    for (int rank = 0; rank < comm->size; rank++) {
        if (wishes[rank].color != wishes[comm->rank].color)
            continue;
        place.size++;
        place.rank += rank != comm->rank && comes_before(wishes, rank, comm->rank);
        if (comes_before(wishes, rank, place.first))
            place.first = rank;
    }
    return place;
}

bool double_advance_split(ncclComm_t comm)
{
    struct split_wish *wishes = wishes_of(comm);
    if (!comm->splitting)
        return true;
    if (atomic_load(&comm->shared->wishes_made) < comm->splits * comm->size)
        return false;
    if (wishes[comm->rank].color != NCCL_SPLIT_NOCOLOR) {
        struct split_place place = place_of(comm, wishes);
        struct split_wish *first = &wishes[place.first];
        if (place.first == comm->rank) {
            first->place = double_new_place(place.size);
            atomic_store(&first->is_placed, true);
        }
        if (!atomic_load(&first->is_placed))
            return false;
        *comm->split_to = double_join(&first->place, place.rank, place.size, comm->device);
    }
    comm->splitting = false;
    return true;
}
