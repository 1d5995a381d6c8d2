/* set_change.c: process sets come and go, in their turn among the batches. */
#include "flow/set_change.h"

#include <stdlib.h>

/* The members as the backends see them; their rank is [count] where [rank] is not a member. */
static struct team members_of(const struct backends *backends, int rank, hvd_set set, const int *ranks,
                              int count)
{
    struct team members = {.set = set, .size = count, .ranks = ranks};
    while (members.rank < count && ranks[members.rank] != rank)
        members.rank++;
    members.ppn = backends_ppn(backends, &members);
    return members;
}

/* [usable]: bits of the backends that the set's operations may use. */
static int register_set(struct set_registry *set_registry, struct backends *backends,
                        const struct team *members, bool by_members, uint32_t usable, struct hvd_error *err)
{
    struct process_set *set = NULL;
    bool is_member = members->rank < members->size;
    int rc = is_member ? process_set_create(backends, members, &set, err) : HVD_OK;
    usable = backends_reaching(backends, members, usable);
    if (set != NULL)
        usable = process_set_backends(set, usable);
    if (rc == HVD_OK)
        rc = set_registry_add(set_registry, members, by_members, usable, set, err);
    if (rc != HVD_OK)
        process_set_destroy(backends, set);
    return rc;
}

int set_change_init(struct set_registry **set_registryp, struct backends *backends, int rank, int size,
                    struct hvd_error *err)
{
    int *ranks = malloc((size_t)size * sizeof(*ranks));
    int rc = set_registry_create(set_registryp, rank, err);
    if (ranks == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", size);
    for (int i = 0; i < size && rc == HVD_OK; i++)
        ranks[i] = i;
    if (rc == HVD_OK) {
        struct team members = members_of(backends, rank, HVD_ALL_RANKS, ranks, size);
        rc = register_set(*set_registryp, backends, &members, false, backends_available(backends), err);
    }
    free(ranks);
    return rc;
}

int set_change_add(struct set_registry *set_registry, struct backends *backends, int rank,
                   const struct batch_set_change *change, struct hvd_error *err)
{
    const struct request *request = change->request;
    int rc = backends_open_all(backends, change->backends, err);
    if (rc != HVD_OK || request == NULL)
        return rc;
    struct team members =
        members_of(backends, rank, change->number, request->ranks, (int)request->desc->tensors[0].shape[0]);
    rc = register_set(set_registry, backends, &members, request->desc->by_members, change->backends, err);
    if (rc == HVD_OK)
        *request->setp = change->number;
    return rc;
}

void set_change_remove(struct backends *backends, struct process_set **setp)
{
    process_set_destroy(backends, *setp);
    *setp = NULL;
}

void set_change_close(struct set_registry **set_registryp, struct backends *backends)
{
    hvd_set set = HVD_ALL_RANKS;
    while (*set_registryp != NULL && set_registry_list(*set_registryp, &set, 1) > 0)
        process_set_destroy(backends, set_registry_remove(*set_registryp, set));
    set_registry_destroy(*set_registryp);
    *set_registryp = NULL;
}
