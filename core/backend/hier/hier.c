/* hier.c: the calls of backends hier-tcp and hier-mpi. What a team does is in hier_team.c. */
#include <stdlib.h>

#include "backend/hier/hier_team.h"
#include "backend/backend_env.h"
#include "backend/team.h"

struct hier {
    const struct backend_ops *ops, *carrier;
    struct backend_env env; /* the carrier's too; without epoll_fd, as it is polled */
    bool carrier_opened;
    void *carrier_state;
};

/* ---- Availability --------------------------------------------------------------------------- */

static bool available(const struct backend_env *env, const struct backend_ops *carrier, const char **whyp)
{
    if (!carrier->available(env, whyp))
        return false;
    *whyp = "this rank shares no memory with the others of its node";
    return env->shape->local_size == 1 || env->arena.base != NULL;
}

/* In an alltoall a member exchanges data with the members at its place on the other nodes, so all nodes need
 * equally many members. */
static bool hier_supports_ppn(const struct backend_need *need, int ppn)
{
    return need->kind != COLL_ALLTOALL || ppn > 0;
}

static bool hier_reaches(const struct backend_env *env, const struct team *team, const char **whyp)
{
    return team_spans_nodes(env->peer_table->node_of_rank, team, whyp);
}

/* ---- Opening -------------------------------------------------------------------------------- */

static int open_hier(const struct backend_env *env, const struct backend_ops *ops,
                     const struct backend_ops *carrier, struct hier **hierp, struct hvd_error *err)
{
    struct hier *hier = calloc(1, sizeof(*hier));
    if (hier == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*hier));
    hier->ops = ops;
    hier->carrier = carrier;
    hier->env = *env;
    hier->env.epoll_fd = -1;
    *hierp = hier;
    return HVD_OK;
}

static int open_carrier(void *state, int64_t deadline_us, struct hvd_error *err)
{
    struct hier *hier = state;
    int rc = hier->carrier->open(&hier->env, deadline_us, &hier->carrier_state, err);
    hier->carrier_opened = rc == HVD_OK;
    return rc;
}

static void hier_close(void *state)
{
    struct hier *hier = state;
    if (hier->carrier_opened)
        hier->carrier->close(hier->carrier_state);
    free(hier);
}

static void hier_after_fork(void *state)
{
    const struct hier *hier = state;
    if (hier->carrier_opened)
        hier->carrier->after_fork(hier->carrier_state);
}

/* ---- Teams ---------------------------------------------------------------------------------- */

/* The number under which a set acquires a region. A set may have teams in both hier backends, and two regions
 * in each. Backend shm uses the same numbers, but only for sets on one node, which have no team here. */
static int claim_of(const struct hier *hier, int set, bool for_alltoalls)
{
    int part = (hier->ops->id == BACKEND_HIER_MPI) + 2 * for_alltoalls;
    return set + part * ARENA_SET_STRIDE;
}

static int hier_add_team(void *state, const struct team *members, int64_t deadline_us, void **teamp,
                         struct hvd_error *err)
{
    struct hier *hier = state;
    struct hier_team *team = NULL;
    const struct hier_team_params parts = {.members = members,
                                           .node_of_rank = hier->env.peer_table->node_of_rank,
                                           .arena = &hier->env.arena,
                                           .claim = claim_of(hier, members->set, false),
                                           .alltoalls =
                                               team_ppn(hier->env.peer_table->node_of_rank, members) > 0,
                                           .alltoall_claim = claim_of(hier, members->set, true),
                                           .carrier = hier->carrier,
                                           .carrier_state = hier->carrier_state,
                                           .join_us = hier->env.config->start_timeout_us};
    int rc = hier_team_create(&team, &parts, deadline_us, err);
    *teamp = team;
    return rc;
}

static void hier_remove_team(void *state, void *team)
{
    (void)state;
    hier_team_destroy(team);
}

static int hier_start(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err)
{
    const struct hier *hier = state;
    hier_team_set_carrier(team, hier->carrier_state); /* it may have been opened after add_team */
    return hier_team_start(team, batch, err);
}

static int hier_test(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)state;
    return hier_team_test(team, movedp, rankp, err);
}

static int hier_waits_for(const void *state, void *team)
{
    (void)state;
    return hier_team_waits_for(team);
}

/* What both carriers have in common. */
#define HIER_OPS                                                                                        \
    .polled = true, .spans_from = 1, .supports_ppn = hier_supports_ppn, .reaches = hier_reaches,        \
    .add_team = hier_add_team, .remove_team = hier_remove_team, .start = hier_start, .test = hier_test, \
    .waits_for = hier_waits_for, .after_fork = hier_after_fork, .close = hier_close

/* ---- Over mpi ------------------------------------------------------------------------------- */

static bool mpi_available(const struct backend_env *env, const char **whyp)
{
    return available(env, &backend_mpi, whyp);
}

static bool mpi_supports(const struct backend_need *need)
{
    return backend_mpi.supports(need);
}

static int mpi_open(const struct backend_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    (void)deadline_us;
    struct hier *hier = NULL;
    int rc = open_hier(env, &backend_hier_mpi, &backend_mpi, &hier, err);
    *statep = hier;
    return rc;
}

const struct backend_ops backend_hier_mpi = {
    .id = BACKEND_HIER_MPI,
    .available = mpi_available,
    .open = mpi_open,
    .opens_early = true, /* all but the carrier, which opens late, as backend mpi does */
    .open_late = open_carrier,
    .supports = mpi_supports,
    HIER_OPS,
};

/* ---- Over tcp ------------------------------------------------------------------------------- */

static bool tcp_available(const struct backend_env *env, const char **whyp)
{
    return available(env, &backend_tcp, whyp);
}

static bool tcp_supports(const struct backend_need *need)
{
    return backend_tcp.supports(need);
}

static int tcp_open(const struct backend_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    struct hier *hier = NULL;
    int rc = open_hier(env, &backend_hier_tcp, &backend_tcp, &hier, err);
    if (rc == HVD_OK)
        rc = open_carrier(hier, deadline_us, err);
    if (rc == HVD_OK)
        *statep = hier;
    else
        free(hier);
    return rc;
}

const struct backend_ops backend_hier_tcp = {
    .id = BACKEND_HIER_TCP,
    .available = tcp_available,
    .open = tcp_open,
    .opens_early = true,
    .supports = tcp_supports,
    HIER_OPS,
};

#undef HIER_OPS
