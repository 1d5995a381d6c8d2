/* shm_team.h: one process set in the plane of shared memory: the batch that runs, and what is done with each
 * of its chunks. */
#ifndef PLANE_SHM_TEAM_H
#define PLANE_SHM_TEAM_H

#include "plane/places.h"
#include "plane/reduce.h"
#include "plane/shm_domains.h"
#include "plane/slots.h"

/* What goes through the elements of a batch, each at its own pace. */
enum shm_walk { WALK_GIVE, WALK_MIX, WALK_TAKE, WALKS };

struct shm_team {
    struct plane_team members;
    struct slots slots;
    struct shm_domains domains;
    bool by_domains;     /* the batch that runs; what follows is of batches that are not */
    uint64_t taken;      /* chunks whose results were taken */
    uint64_t turn;       /* alltoalls begun */
    const void **inputs; /* [size]: room for a list of them */
    /* the batch that runs */
    struct plane_batch batch;
    struct reduction reduction;
    uint64_t begin, end; /* its chunks; end is known once [agreed] */
    bool agreed;
    bool whole; /* allreduce: each member makes all of the result for itself */
    int64_t element_bytes;
    int64_t per_round; /* elements of one round: of the batch, or per member, as the kind has it */
    struct places walks[WALKS];
};

/* What is done with chunk [position]; take is NULL where nothing is left to do then. */
struct shm_kind {
    void (*give)(struct shm_team *team, uint64_t position);
    void (*mix)(struct shm_team *team, uint64_t position);
    void (*take)(struct shm_team *team, uint64_t position);
};

/* Those of the batch that runs. */
const struct shm_kind *shm_kind_of(const struct shm_team *team);

/* Cut the batch that begins into rounds. Returns how many there are, as far as this member knows: in an
 * alltoall others may have more. */
uint64_t shm_cut(struct shm_team *team);

#endif
