/* hier.c: the planes of teams on several nodes with several ranks on some of them: shared memory inside the
 * nodes, and another plane, the carrier, between them.
 *
 * A batch is cut into slices, as many as the smallest node has members, and the k-th members of all nodes
 * carry slice k as a team of their own. There each stands for all ranks of its node: it folds their inputs in
 * their order onto what comes from the node before, and as the ranks of a node follow each other in the team
 * each element is reduced in the order of ranks. hier_cut.c says what is in a slice, hier_stage.c brings
 * inputs together and results back, and chain.c, in whatever carrier, has the order of things between nodes.
 * All of it overlaps, piece by piece. */
#include "plane/hier.h"

#include <stdlib.h>

#include "base/clock.h"

#define SLICE_US 100

struct hier {
    const struct plane_ops *ops, *carrier;
    struct plane_env env; /* the carrier's too: it is tested again and again, and wakes nobody */
    void *carrier_state;
};

struct hier_team {
    struct plane_team team;
    struct hier_nodes nodes;
    struct hier_stage *stage;
    /* of those that carry the same slice */
    struct plane_team ring;
    int *ring_ranks;
    bool started; /* its first batch */
    bool joined;
    void *carrier_team;
    bool carries; /* a batch of theirs runs */
};

/* ---- Whom it carries for -------------------------------------------------------------------- */

static bool available(const struct plane_env *env, const struct plane_ops *carrier, const char **whyp)
{
    if (!carrier->available(env, whyp))
        return false;
    *whyp = "this rank shares no memory with the others of its node";
    return env->shape->local_size == 1 || env->arena.base != NULL;
}

static bool can(const struct plane_need *need, const struct plane_ops *carrier)
{
    return need->kind != PLANE_ALLTOALL && carrier->can(need);
}

static bool hier_serves(const struct plane_env *env, const struct plane_team *team, const char **whyp)
{
    return hier_spread(env->roster->node_of_rank, team, whyp);
}

/* ---- Opening -------------------------------------------------------------------------------- */

static struct hier *new_hier(const struct plane_env *env, const struct plane_ops *ops,
                             const struct plane_ops *carrier)
{
    struct hier *hier = calloc(1, sizeof(*hier));
    if (hier == NULL)
        return NULL;
    hier->ops = ops;
    hier->carrier = carrier;
    hier->env = *env;
    hier->env.epoll_fd = -1;
    return hier;
}

static int open_carrier(struct hier *hier, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    if (hier == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*hier));
    int rc = hier->carrier->open(&hier->env, deadline_us, &hier->carrier_state, err);
    if (rc == HVD_OK)
        *statep = hier;
    else
        free(hier);
    return rc;
}

static void hier_close(void *state)
{
    struct hier *hier = state;
    hier->carrier->close(hier->carrier_state);
    free(hier);
}

static void hier_after_fork(void *state)
{
    const struct hier *hier = state;
    hier->carrier->after_fork(hier->carrier_state);
}

/* ---- Teams ---------------------------------------------------------------------------------- */

/* Those that carry the same slice as this member. */
static int find_ring(struct hier_team *team)
{
    int slice = hier_stage_slice(team->stage);
    int count = team->nodes.count;
    team->ring_ranks = calloc((size_t)count, sizeof(*team->ring_ranks));
    if (team->ring_ranks == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int node = 0; node < count && slice >= 0; node++)
        team->ring_ranks[node] = team->team.ranks[team->nodes.firsts[node] + slice];
    team->ring = (struct plane_team){.set = team->team.set,
                                     .slice = slice + 1,
                                     .rank = team->nodes.node,
                                     .size = count,
                                     .ranks = team->ring_ranks};
    return HVD_OK;
}

/* A set may be in both of these planes; plane shm has none of theirs. Sets have numbers from 0 on. */
static int claim_of(const struct hier *hier, int set)
{
    return hier->ops->id == PLANE_HIER_TCP ? set : -2 - set;
}

static void free_team(struct hier_team *team)
{
    hier_stage_close(team->stage);
    hier_nodes_fini(&team->nodes);
    free(team->ring_ranks);
    free(team);
}

/* The members of other nodes are met at the first batch: only then is it known that there was room for the
 * team on all nodes. */
static int hier_add_team(void *state, const struct plane_team *members, int64_t deadline_us, void **teamp,
                         struct hvd_error *err)
{
    struct hier *hier = state;
    struct hier_team *team = calloc(1, sizeof(*team));
    if (team == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*team));
    team->team = *members;
    const struct hier_seat seat = {.team = &team->team,
                                   .nodes = &team->nodes,
                                   .arena = &hier->env.arena,
                                   .claim = claim_of(hier, members->set)};
    int rc = hier_nodes_init(&team->nodes, hier->env.roster->node_of_rank, members);
    if (rc == HVD_OK)
        rc = hier_stage_open(&team->stage, &seat, deadline_us, err);
    else
        error_set(err, rc, "no memory for a process set of %d ranks", members->size);
    if (rc == HVD_OK && find_ring(team) != HVD_OK)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d nodes", team->nodes.count);
    if (rc != HVD_OK) {
        free_team(team);
        return rc;
    }
    *teamp = team;
    return HVD_OK;
}

void hier_set_chunk(void *state_of_team, int64_t bytes)
{
    const struct hier_team *team = state_of_team;
    hier_stage_set_chunk(team->stage, bytes);
}

/* The carrier first: it may still touch what the stage has. */
static void hier_remove_team(void *state, void *state_of_team)
{
    const struct hier *hier = state;
    struct hier_team *team = state_of_team;
    if (team == NULL)
        return;
    if (team->joined)
        hier->carrier->remove_team(hier->carrier_state, team->carrier_team);
    free_team(team);
}

/* ---- Batches -------------------------------------------------------------------------------- */

static int join_ring(const struct hier *hier, struct hier_team *team, struct hvd_error *err)
{
    int64_t deadline_us = clock_us() + hier->env.config->start_timeout_us;
    int rc = HVD_OK;
    if (team->joined || hier_stage_slice(team->stage) < 0)
        return rc;
    rc = hier->carrier->add_team(hier->carrier_state, &team->ring, deadline_us, &team->carrier_team, err);
    team->joined = rc == HVD_OK;
    return rc;
}

/* The first does, though not on members beyond the slices: all of them say the same. */
static bool hier_connects(const void *state_of_team, const struct plane_batch *batch)
{
    (void)batch;
    const struct hier_team *team = state_of_team;
    return !team->started;
}

static int hier_start(void *state, void *state_of_team, const struct plane_batch *batch,
                      struct hvd_error *err)
{
    const struct hier *hier = state;
    struct hier_team *team = state_of_team;
    const struct plane_batch *slice = NULL;
    int rc = join_ring(hier, team, err);
    team->started = true;
    if (rc == HVD_OK)
        rc = hier_stage_start(team->stage, batch, &slice, err);
    if (rc == HVD_OK && slice != NULL)
        rc = hier->carrier->start(hier->carrier_state, team->carrier_team, slice, err);
    team->carries = rc == HVD_OK && slice != NULL;
    return rc;
}

static int test_carrier(const struct hier *hier, struct hier_team *team, bool *movedp, int *rankp,
                        struct hvd_error *err)
{
    bool moved = false;
    int rc = hier->carrier->test(hier->carrier_state, team->carrier_team, &moved, rankp, err);
    team->carries = rc != HVD_OK;
    *movedp = *movedp || moved || !team->carries;
    return rc;
}

/* Both in turn, as each has something for the other. */
static int hier_test(void *state, void *state_of_team, bool *movedp, int *rankp, struct hvd_error *err)
{
    const struct hier *hier = state;
    struct hier_team *team = state_of_team;
    int64_t end_us = clock_us() + SLICE_US;
    bool moved;
    *movedp = false;
    do {
        moved = hier_stage_go_on(team->stage);
        int rc = team->carries ? test_carrier(hier, team, &moved, rankp, err) : HVD_OK;
        if (rc < 0)
            return rc;
        *movedp = *movedp || moved;
        if (!team->carries && hier_stage_is_done(team->stage))
            return HVD_OK;
    } while (moved && clock_us() < end_us);
    return HVD_IN_PROGRESS;
}

/* ---- Over mpi ------------------------------------------------------------------------------- */

static bool mpi_available(const struct plane_env *env, const char **whyp)
{
    return available(env, &plane_mpi, whyp);
}

static bool mpi_can(const struct plane_need *need)
{
    return can(need, &plane_mpi);
}

static int mpi_open(const struct plane_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    return open_carrier(new_hier(env, &plane_hier_mpi, &plane_mpi), deadline_us, statep, err);
}

const struct plane_ops plane_hier_mpi = {
    .id = PLANE_HIER_MPI,
    .available = mpi_available,
    .open = mpi_open,
    .opens_early = false, /* as plane mpi */
    .polled = true,
    .spans = true,
    .can = mpi_can,
    .serves = hier_serves,
    .add_team = hier_add_team,
    .remove_team = hier_remove_team,
    .connects = hier_connects,
    .start = hier_start,
    .test = hier_test,
    .after_fork = hier_after_fork,
    .close = hier_close,
};

/* ---- Over tcp ------------------------------------------------------------------------------- */

static bool tcp_available(const struct plane_env *env, const char **whyp)
{
    return available(env, &plane_tcp, whyp);
}

static bool tcp_can(const struct plane_need *need)
{
    return can(need, &plane_tcp);
}

static int tcp_open(const struct plane_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    return open_carrier(new_hier(env, &plane_hier_tcp, &plane_tcp), deadline_us, statep, err);
}

const struct plane_ops plane_hier_tcp = {
    .id = PLANE_HIER_TCP,
    .available = tcp_available,
    .open = tcp_open,
    .opens_early = true,
    .polled = true,
    .spans = true,
    .can = tcp_can,
    .serves = hier_serves,
    .add_team = hier_add_team,
    .remove_team = hier_remove_team,
    .connects = hier_connects,
    .start = hier_start,
    .test = hier_test,
    .after_fork = hier_after_fork,
    .close = hier_close,
};
