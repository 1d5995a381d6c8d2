/* shm_domains.h: batches by NUMA domains: where the members of a process set are in several domains, the data
 * of a large batch crosses between them once.
 *
 * In the other ways, which are called flat, each member reads its part of all members' inputs and collects
 * results from all. With D domains, (D - 1) / D of the bytes cross between domains, twice. By domains, the
 * members of one domain first combine their inputs, as those of a node do in backend hier. Then one partial
 * result goes from domain to domain, and one result goes back. That is one more step for each byte, so it
 * pays only for batches whose time is bandwidth. */
#ifndef BACKEND_SHM_SHM_DOMAINS_H
#define BACKEND_SHM_SHM_DOMAINS_H

#include "backend/backend.h"
#include "node/arena.h"

struct hier_team;
struct shm_team;

/* The smallest batch that goes by domains. The time of smaller ones is latency. */
#define SHM_DOMAINS_BYTES ((int64_t)1 << 20)

/* The fewest members of each domain. From then on at most half as many bytes cross as flat. */
#define SHM_DOMAINS_MEMBERS 4

/* What a team keeps for batches by domains. */
struct shm_domains {
    bool asked;             /* the members' domains were compared; from then on [team] is final */
    int64_t least_bytes;    /* the smallest batch that goes by domains, in bytes */
    int64_t chunk_bytes;    /* as in hier_team_set_chunk; 0: hier_team chooses */
    struct arena arena;     /* in a region of the node's arena */
    struct hier_team *team; /* NULL: all batches are flat */
};

/* Does [batch] go by domains? All members get the same answer: it depends on their domains and on the batch.
 * The first batch that may go this way sets it up. If there is no room for that, all batches are flat. */
int shm_domains_choose(struct shm_team *team, const struct backend_env *env,
                       const struct backend_batch *batch, bool *chosenp, struct hvd_error *err);

/* As in backend_ops, for a batch that goes by domains. Whenever something was done, members that sleep after
 * slots_arm_any are woken. */
int shm_domains_start(struct shm_team *team, const struct backend_batch *batch, struct hvd_error *err);
int shm_domains_test(struct shm_team *team, bool *movedp, int *rankp, struct hvd_error *err);

/* Also for a team that never went this way. */
void shm_domains_close(struct shm_team *team, const struct backend_env *env);

#endif
