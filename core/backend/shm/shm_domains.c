/* shm_domains.c: batches by NUMA domains: whether they pay, and a hier_team with domains in the place of
 * nodes. */
#include "backend/shm/shm_domains.h"

#include <stdlib.h>

#include "base/clock.h"
#include "backend/hier/hier_team.h"
#include "backend/shm/relay.h"
#include "backend/shm/shm_team.h"
#include "base/dtype.h"
#include "backend/backend_env.h"
#include "backend/team.h"

/* ---- The members' domains ------------------------------------------------------------------- */

/* The number under which the team acquires its second region. Backends hier use such numbers too, but never
 * for a set on one node. */
static int claim_of(const struct shm_team *team)
{
    return team->members.set + ARENA_SET_STRIDE;
}

/* Read the domain of each member, by its rank in the job. Each member has written its own before it can have
 * agreed on a batch. */
static int read_domains(const struct shm_team *team, int *domain_of_rank, bool *knownp, struct hvd_error *err)
{
    *knownp = true;
    for (int i = 0; i < team->members.size; i++) {
        int rank = team->members.ranks[i];
        int domain = slots_domain(&team->slots, i);
        if (domain < -1)
            return error_set(err, HVD_ERR_SYSTEM,
                             "backend shm: rank %d has not published its NUMA domain in process set %d: this "
                             "node's shared "
                             "memory was overwritten",
                             rank, team->members.set);
        domain_of_rank[rank] = domain;
        *knownp = *knownp && domain >= 0;
    }
    return HVD_OK;
}

/* Would fewer bytes cross? If so *whyp is NULL, otherwise it says why not. The caller frees [domains] in any
 * case. */
static int check_domains(const struct shm_team *team, const int *domain_of_rank, struct hier_nodes *domains,
                         const char **whyp, struct hvd_error *err)
{
    const char *spread;
    if (!team_spans_nodes(domain_of_rank, &team->members, &spread)) {
        *whyp = "the ranks are not on several NUMA domains one after the other";
        return HVD_OK;
    }
    int rc = hier_nodes_init(domains, domain_of_rank, &team->members);
    if (rc != HVD_OK)
        return error_set(err, rc, "backend shm: no memory for the NUMA domains of %d ranks",
                         team->members.size);
    *whyp = domains->slices < SHM_DOMAINS_MEMBERS ? "some NUMA domain has too few of the ranks" : NULL;
    return rc;
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* Acquire one region for everything, so that all members get the same answer, and make it an arena with just
 * enough room. Half of the node's arena stays free for later process sets: without any memory there they
 * could not use this backend. */
static int enter_region(struct shm_team *team, const struct backend_env *env,
                        const struct hier_nodes *domains, struct hvd_error *err)
{
    struct arena_request claim = {
        .set = claim_of(team), .users = team->members.size, .spare = env->arena.bytes / 2};
    void *region = NULL;
    size_t bytes = (size_t)domains->slices * relay_bytes(domains->count);
    for (int domain = 0; domain < domains->count; domain++)
        bytes += hier_node_bytes(domains, domain);
    arena_request_nested(&claim, domains->count + domains->slices, bytes);
    int rc = arena_acquire(&env->arena, &claim, clock_us() + ARENA_ACQUIRE_US, &region, err);
    if (rc == HVD_OK)
        team->domains.arena = (struct arena){region, claim.bytes};
    return rc;
}

/* *whyp: NULL, or why there is no such team. */
static int create_domains(struct shm_team *team, const struct backend_env *env, const int *domain_of_rank,
                          const struct hier_nodes *domains, const char **whyp, struct hvd_error *err)
{
    struct shm_domains *own = &team->domains;
    const struct hier_team_params parts = {.members = &team->members,
                                           .node_of_rank = domain_of_rank,
                                           .arena = &own->arena,
                                           .claim = domains->node,
                                           .carrier = &relay_ops,
                                           .carrier_state = &own->arena,
                                           .join_us = ARENA_ACQUIRE_US};
    int rc = enter_region(team, env, domains, err);
    *whyp = rc == HVD_ERR_UNSUPPORTED ? "too little shared memory is left for them" : NULL;
    if (rc == HVD_ERR_UNSUPPORTED)
        return HVD_OK;
    if (rc == HVD_OK)
        rc = hier_team_create(&own->team, &parts, clock_us() + ARENA_ACQUIRE_US, err);
    if (rc == HVD_OK && own->chunk_bytes > 0)
        hier_team_set_chunk(own->team, own->chunk_bytes);
    return rc;
}

/* ---- Choosing ------------------------------------------------------------------------------- */

static int setup_domains(struct shm_team *team, const struct backend_env *env, struct hvd_error *err)
{
    int *domain_of_rank = calloc((size_t)env->peer_table->size, sizeof(*domain_of_rank));
    struct hier_nodes domains = {0};
    const char *why = "not all ranks know their NUMA domain";
    bool known = false;
    if (domain_of_rank == NULL)
        return error_set_errno(err, "backend shm: no memory for the NUMA domains of %d ranks",
                               env->peer_table->size);
    team->domains.asked = true;
    int rc = read_domains(team, domain_of_rank, &known, err);
    if (rc == HVD_OK && known)
        rc = check_domains(team, domain_of_rank, &domains, &why, err);
    if (rc == HVD_OK && why == NULL)
        rc = create_domains(team, env, domain_of_rank, &domains, &why, err);
    if (rc == HVD_OK && why == NULL)
        log_write(env->log, LOG_DEBUG, "backend",
                  "process set %d: large batches cross between %d NUMA domains once", team->members.set,
                  domains.count);
    else if (rc == HVD_OK)
        log_write(env->log, LOG_DEBUG, "backend",
                  "process set %d: large batches do not go by NUMA domains: %s", team->members.set, why);
    hier_nodes_fini(&domains);
    free(domain_of_rank);
    return rc;
}

int shm_domains_choose(struct shm_team *team, const struct backend_env *env,
                       const struct backend_batch *batch, bool *chosenp, struct hvd_error *err)
{
    struct shm_domains *own = &team->domains;
    int64_t least = own->least_bytes / (int64_t)dtype_bytes(batch->need.dtype);
    bool large = batch->need.kind != COLL_ALLTOALL && batch->count >= least;
    bool may = large && !env->oversubscribed && team->members.size >= 2 * SHM_DOMAINS_MEMBERS;
    int rc = may && !own->asked ? setup_domains(team, env, err) : HVD_OK;
    *chosenp = rc == HVD_OK && may && own->team != NULL;
    return rc;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* A step in which this member has no part counts as done from the start. Others may wait for that, so they
 * are notified. */
int shm_domains_start(struct shm_team *team, const struct backend_batch *batch, struct hvd_error *err)
{
    int rc = hier_team_start(team->domains.team, batch, err);
    slots_notify(&team->slots);
    return rc;
}

int shm_domains_test(struct shm_team *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    int rc = hier_team_test(team->domains.team, movedp, rankp, err);
    if (*movedp)
        slots_notify(&team->slots);
    return rc;
}

void shm_domains_close(struct shm_team *team, const struct backend_env *env)
{
    hier_team_destroy(team->domains.team);
    if (team->domains.arena.base != NULL)
        arena_release(&env->arena, claim_of(team));
}
