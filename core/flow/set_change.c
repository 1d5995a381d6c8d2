/* set_change.c: process sets come and go, in their turn among the batches. */
#include <stdlib.h>

#include "flow/stages.h"

/* As the planes see it; this rank's place is [count] where it has none. */
static struct plane_team members_of(const struct loop *loop, hvd_set set, const int *ranks, int count)
{
    struct plane_team members = {.set = set, .size = count, .ranks = ranks};
    while (members.rank < count && ranks[members.rank] != loop->control->rank)
        members.rank++;
    members.each = plane_set_each(&loop->planes, &members);
    return members;
}

static int register_set(struct loop *loop, hvd_set set, const int *ranks, int count, uint32_t planes,
                        struct hvd_error *err)
{
    struct team *team = NULL;
    struct plane_team members = members_of(loop, set, ranks, count);
    int rc = members.rank == count ? HVD_OK : team_create(&loop->planes, &members, &team, err);
    planes = plane_set_serving(&loop->planes, &members, planes);
    if (team != NULL)
        planes = team_planes(team, planes);
    if (rc == HVD_OK)
        rc = teams_add(loop->teams, &members, planes, team, err);
    if (rc != HVD_OK)
        team_destroy(&loop->planes, team);
    return rc;
}

int sets_begin(struct loop *loop, struct hvd_error *err)
{
    int size = loop->control->size;
    int *ranks = malloc((size_t)size * sizeof(*ranks));
    int rc = teams_create(&loop->teams, loop->control->rank, err);
    if (ranks == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", size);
    for (int i = 0; i < size && rc == HVD_OK; i++)
        ranks[i] = i;
    if (rc == HVD_OK)
        rc = register_set(loop, HVD_ALL_RANKS, ranks, size, plane_set_available(&loop->planes), err);
    free(ranks);
    return rc;
}

int sets_add(struct loop *loop, const struct batch *batch, struct hvd_error *err)
{
    struct request *request = batch->request;
    int rc = plane_set_open_all(&loop->planes, batch->planes, err);
    if (rc == HVD_OK)
        rc = register_set(loop, batch->set, request->ranks, (int)request->desc->tensors[0].shape[0],
                          batch->planes, err);
    if (rc == HVD_OK)
        *request->setp = batch->set;
    return rc;
}

void sets_remove(struct loop *loop, struct batch *batch)
{
    team_destroy(&loop->planes, batch->team);
    batch->team = NULL;
}

void sets_close(struct loop *loop)
{
    hvd_set set = HVD_ALL_RANKS;
    while (loop->teams != NULL && teams_list(loop->teams, &set, 1) > 0)
        team_destroy(&loop->planes, teams_take(loop->teams, set));
    teams_destroy(loop->teams);
    loop->teams = NULL;
}
