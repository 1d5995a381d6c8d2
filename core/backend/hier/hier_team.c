/* hier_team.c: a team on two levels: shared memory inside each node, and between nodes one ring for each
 * slice.
 *
 * A batch is split into slices, as many as the smallest node has members. The k-th members of all nodes carry
 * slice k, as a team of their own, the ring. In the ring each member stands for all ranks of its node: it
 * folds their inputs, in their order, onto what comes from the previous node. The ranks of a node follow each
 * other in the team, so each element is reduced in the order of ranks. hier_split.c says what belongs to a
 * slice, hier_node.c brings inputs together and distributes results, and chain.c, in any carrier, orders what
 * is sent between nodes. All of it overlaps, chunk by chunk.
 *
 * An alltoall is not split: the k-th member of a node gets its data from the k-th members of the other nodes,
 * and hier_alltoall.c takes the place of hier_node.c. */
#include "backend/hier/hier_team.h"

#include <stdlib.h>

#include "base/clock.h"

#define SLICE_US 100

struct hier_team {
    struct team members;
    struct hier_nodes nodes;
    struct hier_node *hier_node;
    struct hier_alltoall *alltoall; /* NULL: the team carries no alltoalls */
    const struct backend_ops *carrier;
    void *carrier_state;
    int64_t join_us;
    /* the team of those that carry the same slice as this member */
    struct team ring;
    int *ring_ranks;
    bool alltoall_started; /* the first alltoall */
    bool ring_joined;
    void *carrier_team;
    bool is_alltoall_running; /* the batch that runs is an alltoall */
    bool carries;             /* a batch of the ring runs */
};

/* ---- Opening and closing -------------------------------------------------------------------- */

/* Find the members that carry the same slice as this one. */
static int find_ring(struct hier_team *team)
{
    int slice = hier_node_slice(team->hier_node);
    int count = team->nodes.count;
    team->ring_ranks = calloc((size_t)count, sizeof(*team->ring_ranks));
    if (team->ring_ranks == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int node = 0; node < count && slice >= 0; node++)
        team->ring_ranks[node] = team->members.ranks[team->nodes.firsts[node] + slice];
    team->ring = (struct team){.set = team->members.set,
                               .slice = slice + 1,
                               .rank = team->nodes.node,
                               .size = count,
                               .ranks = team->ring_ranks};
    return HVD_OK;
}

static int setup(struct hier_team *team, const struct hier_team_params *parts, int64_t deadline_us,
                 struct hvd_error *err)
{
    struct hier_params params = {
        .team = &team->members, .nodes = &team->nodes, .arena = parts->arena, .claim = parts->claim};
    int rc = hier_nodes_init(&team->nodes, parts->node_of_rank, &team->members);
    if (rc == HVD_OK)
        rc = hier_node_open(&team->hier_node, &params, deadline_us, err);
    else
        error_set(err, rc, "no memory for a process set of %d ranks", team->members.size);
    params.claim = parts->alltoall_claim;
    if (rc == HVD_OK && parts->alltoalls)
        rc = hier_alltoall_open(&team->alltoall, &params, deadline_us, err);
    if (rc == HVD_OK && find_ring(team) != HVD_OK)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d nodes", team->nodes.count);
    return rc;
}

int hier_team_create(struct hier_team **teamp, const struct hier_team_params *parts, int64_t deadline_us,
                     struct hvd_error *err)
{
    struct hier_team *team = calloc(1, sizeof(*team));
    if (team == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*team));
    team->members = *parts->members;
    team->carrier = parts->carrier;
    team->carrier_state = parts->carrier_state;
    team->join_us = parts->join_us;
    int rc = setup(team, parts, deadline_us, err);
    if (rc != HVD_OK) {
        hier_team_destroy(team);
        return rc;
    }
    *teamp = team;
    return HVD_OK;
}

void hier_team_set_carrier(struct hier_team *team, void *carrier_state)
{
    team->carrier_state = carrier_state;
}

/* The carrier's team goes first: until it is removed, it may touch the memory of the others. */
void hier_team_destroy(struct hier_team *team)
{
    if (team == NULL)
        return;
    if (team->ring_joined)
        team->carrier->remove_team(team->carrier_state, team->carrier_team);
    hier_alltoall_close(team->alltoall);
    hier_node_close(team->hier_node);
    hier_nodes_fini(&team->nodes);
    free(team->ring_ranks);
    free(team);
}

void hier_team_set_chunk(struct hier_team *team, int64_t bytes)
{
    hier_node_set_chunk(team->hier_node, bytes);
    if (team->alltoall != NULL)
        hier_alltoall_set_chunk(team->alltoall, bytes);
}

/* ---- Batches -------------------------------------------------------------------------------- */

static int join_ring(struct hier_team *team, struct hvd_error *err)
{
    int64_t deadline_us = clock_us() + team->join_us;
    int rc = HVD_OK;
    if (team->ring_joined || hier_node_slice(team->hier_node) < 0)
        return rc;
    rc = team->carrier->add_team(team->carrier_state, &team->ring, deadline_us, &team->carrier_team, err);
    team->ring_joined = rc == HVD_OK;
    return rc;
}

static bool is_alltoall(const struct backend_batch *batch)
{
    return batch->need.kind == COLL_ALLTOALL;
}

static int start_slice(struct hier_team *team, const struct backend_batch *slice, struct hvd_error *err)
{
    int rc = team->carrier->start(team->carrier_state, team->carrier_team, slice, err);
    team->carries = rc == HVD_OK;
    return rc;
}

/* A carrier may connect all members of the ring in its first alltoall, but a member with an empty slice does
 * not come to it. So the first time a batch without elements goes ahead, to which all of them come. */
static int start_alltoall(struct hier_team *team, const struct backend_batch *batch, struct hvd_error *err)
{
    const struct backend_batch *empty = hier_alltoall_start(team->alltoall, batch);
    int rc = team->alltoall_started ? HVD_OK : start_slice(team, empty, err);
    team->alltoall_started = true;
    return rc;
}

static int start_node(struct hier_team *team, const struct backend_batch *batch, struct hvd_error *err)
{
    const struct backend_batch *slice = NULL;
    int rc = hier_node_start(team->hier_node, batch, &slice, err);
    return rc == HVD_OK && slice != NULL ? start_slice(team, slice, err) : rc;
}

int hier_team_start(struct hier_team *team, const struct backend_batch *batch, struct hvd_error *err)
{
    int rc = join_ring(team, err);
    team->carries = false;
    team->is_alltoall_running = is_alltoall(batch);
    if (rc != HVD_OK)
        return rc;
    return team->is_alltoall_running ? start_alltoall(team, batch, err) : start_node(team, batch, err);
}

static int test_carrier(struct hier_team *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    bool moved = false;
    int rc = team->carrier->test(team->carrier_state, team->carrier_team, &moved, rankp, err);
    team->carries = rc != HVD_OK;
    *movedp = *movedp || moved || !team->carries;
    return rc;
}

/* One step inside the node. */
static int progress_inside(struct hier_team *team, bool *movedp, struct hvd_error *err)
{
    const struct backend_batch *slice = NULL;
    if (!team->is_alltoall_running) {
        *movedp = hier_node_progress(team->hier_node);
        return HVD_OK;
    }
    int rc = hier_alltoall_progress(team->alltoall, movedp, err);
    if (rc == HVD_OK && !team->carries)
        rc = hier_alltoall_slice(team->alltoall, &slice, err);
    return rc == HVD_OK && slice != NULL ? start_slice(team, slice, err) : rc;
}

static bool is_done_inside(const struct hier_team *team)
{
    return team->is_alltoall_running ? hier_alltoall_is_done(team->alltoall)
                                     : hier_node_is_done(team->hier_node);
}

/* Progress the node and the carrier in turn, because each of them waits for the other. */
int hier_team_test(struct hier_team *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    int64_t end_us = clock_us() + SLICE_US;
    bool moved;
    *movedp = false;
    do {
        moved = false;
        int rc = progress_inside(team, &moved, err);
        if (rc == HVD_OK && team->carries)
            rc = test_carrier(team, &moved, rankp, err);
        if (rc < 0)
            return rc;
        *movedp = *movedp || moved;
        if (!team->carries && is_done_inside(team))
            return HVD_OK;
    } while (moved && clock_us() < end_us);
    return HVD_IN_PROGRESS;
}

/* The carrier may wait for inputs of this node, and the members of the node for what the carrier brings: the
 * carrier comes between. */
int hier_team_waits_for(const struct hier_team *team)
{
    bool alltoall = team->is_alltoall_running;
    int member =
        alltoall ? hier_alltoall_waits_for_input(team->alltoall) : hier_node_waits_for_input(team->hier_node);
    if (member < 0 && team->carries && team->carrier->waits_for != NULL) {
        int rank = team->carrier->waits_for(team->carrier_state, team->carrier_team);
        if (rank >= 0)
            return rank;
    }
    if (member < 0)
        member = alltoall ? hier_alltoall_waits_for(team->alltoall) : hier_node_waits_for(team->hier_node);
    return member < 0 ? -1 : team->members.ranks[member];
}
