/* shm_domains.h: the second way of batches in the backend of shared memory: where the members of a process
 * set are on several NUMA domains, a large batch crosses between them once.
 *
 * Flat, each member reads its part from the slots of all others and takes results from all: of D domains'
 * bytes (D - 1) / D cross, twice. By domains, members of one domain put their inputs together first, as those
 * of a node do in backend hier, so that one partial result goes from domain to domain, and one result back.
 * That is a step more for each byte, so that it is worth it only for batches that are a matter of bytes. */
#ifndef BACKEND_SHM_SHM_DOMAINS_H
#define BACKEND_SHM_SHM_DOMAINS_H

#include "backend/backend.h"
#include "node/arena.h"

struct hier_team;
struct shm_team;

/* The smallest batch that goes by domains: what is smaller is a matter of latency. */
#define SHM_DOMAINS_BYTES ((int64_t)1 << 20)

/* Fewest members of each domain: at most half as many bytes cross then as flat. */
#define SHM_DOMAINS_MEMBERS 4

/* One process set's. */
struct shm_domains {
    bool asked;             /* how the members lie is known: [team] says which way large batches go */
    int64_t least_bytes;    /* of a batch that goes by domains */
    int64_t chunk_bytes;    /* as hier_team_set_chunk; 0: as it chooses itself */
    struct arena arena;     /* of its own, in a region of the node's */
    struct hier_team *team; /* NULL: all batches are flat */
};

/* Does [batch] go by domains? The same on all members: decided by how they lie and by the batch. The first
 * one that might makes what that takes; where there is no room for it all batches are flat. */
int shm_domains_choose(struct shm_team *team, const struct backend_env *env,
                       const struct backend_batch *batch, bool *chosenp, struct hvd_error *err);

/* As in backend_ops, of a batch that does. Who dozes in the slots of the set wakes whenever something moved.
 */
int shm_domains_start(struct shm_team *team, const struct backend_batch *batch, struct hvd_error *err);
int shm_domains_test(struct shm_team *team, bool *movedp, int *rankp, struct hvd_error *err);

/* Also of a set without. */
void shm_domains_close(struct shm_team *team, const struct backend_env *env);

#endif
