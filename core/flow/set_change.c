/* set_change.c: process sets come and go, in their turn among the batches. */
#include <stdlib.h>

#include "flow/stages.h"

/* As the backends see it; this rank's place is [count] where it has none. */
static struct team members_of(const struct loop *loop, hvd_set set, const int *ranks, int count)
{
    struct team members = {.set = set, .size = count, .ranks = ranks};
    while (members.rank < count && ranks[members.rank] != loop->control->rank)
        members.rank++;
    members.ppn = backends_ppn(&loop->backends, &members);
    return members;
}

static int register_set(struct loop *loop, hvd_set set, const int *ranks, int count, uint32_t backends,
                        struct hvd_error *err)
{
    struct process_set *team = NULL;
    struct team members = members_of(loop, set, ranks, count);
    int rc = members.rank == count ? HVD_OK : process_set_create(&loop->backends, &members, &team, err);
    backends = backends_reaching(&loop->backends, &members, backends);
    if (team != NULL)
        backends = process_set_backends(team, backends);
    if (rc == HVD_OK)
        rc = set_registry_add(loop->set_registry, &members, backends, team, err);
    if (rc != HVD_OK)
        process_set_destroy(&loop->backends, team);
    return rc;
}

int set_change_init(struct loop *loop, struct hvd_error *err)
{
    int size = loop->control->size;
    int *ranks = malloc((size_t)size * sizeof(*ranks));
    int rc = set_registry_create(&loop->set_registry, loop->control->rank, err);
    if (ranks == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", size);
    for (int i = 0; i < size && rc == HVD_OK; i++)
        ranks[i] = i;
    if (rc == HVD_OK)
        rc = register_set(loop, HVD_ALL_RANKS, ranks, size, backends_available(&loop->backends), err);
    free(ranks);
    return rc;
}

int set_change_add(struct loop *loop, const struct batch *batch, struct hvd_error *err)
{
    struct request *request = batch->request;
    int rc = backends_open_all(&loop->backends, batch->backends, err);
    if (rc == HVD_OK)
        rc = register_set(loop, batch->set, request->ranks, (int)request->desc->tensors[0].shape[0],
                          batch->backends, err);
    if (rc == HVD_OK)
        *request->setp = batch->set;
    return rc;
}

void set_change_remove(struct loop *loop, struct batch *batch)
{
    process_set_destroy(&loop->backends, batch->team);
    batch->team = NULL;
}

void set_change_close(struct loop *loop)
{
    hvd_set set = HVD_ALL_RANKS;
    while (loop->set_registry != NULL && set_registry_list(loop->set_registry, &set, 1) > 0)
        process_set_destroy(&loop->backends, set_registry_remove(loop->set_registry, set));
    set_registry_destroy(loop->set_registry);
    loop->set_registry = NULL;
}
