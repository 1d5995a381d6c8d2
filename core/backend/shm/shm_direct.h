/* shm_direct.h: batches in place: if on all members all inputs and outputs of an allreduce lie in the
 * members' windows, it is reduced there. No byte goes through a slot, and each member that is free reduces
 * the next chunk, for all members.
 *
 * In the slots such a batch is a single chunk, which holds where each member's elements lie. The steps:
 *   publish  the member has written where its elements lie, or that it cannot say
 *   reduce   it has read what all others wrote, every chunk has been claimed, and it has reduced its own
 * So when all have reduced, the results are there. If a member cannot say, the batch goes on through the
 * pipeline, behind that single chunk. That member does not wait for what the others write. */
#ifndef BACKEND_SHM_SHM_DIRECT_H
#define BACKEND_SHM_SHM_DIRECT_H

#include "backend/backend.h"
#include "node/slots.h"

struct shm_team;

/* The smallest batch that may be reduced in place. Smaller ones are faster through the slots. */
#define SHM_DIRECT_BYTES ((int64_t)32 * 1024)

enum direct_phase { DIRECT_OFF, DIRECT_PUBLISH, DIRECT_ATTACH, DIRECT_REDUCE, DIRECT_DRAIN };

/* Elements whose inputs are contiguous in one member's window, and their outputs too. */
struct direct_range {
    int64_t begin, count;
    uint64_t input, output; /* offsets in the window */
};

/* What a member has published, and how far this member has come in reading it. */
struct direct_member {
    const volatile struct direct_range *ranges; /* shared */
    int64_t range_count, next;
    int window;                /* the index of its window */
    struct direct_range range; /* a copy of the range before [next] */
    char *input, *output;      /* of that range's elements, checked to be in the window */
};

/* What a team keeps for batches in place. */
struct shm_direct {
    const struct windows *windows;
    int64_t least_bytes;
    struct direct_member *members; /* [size] */
    /* the batch that runs */
    enum direct_phase phase; /* DIRECT_OFF: it goes another way */
    int64_t chunk_count;     /* elements of a chunk */
    uint64_t begin, end;     /* its chunks, numbered over all batches of the team that went this way */
    int64_t at, left;        /* what is left of the chunk that this member reduces, in elements */
};

/* [env]'s windows must outlive the team. A member without windows never says where its elements lie. False:
 * no memory. */
bool shm_direct_open(struct shm_team *team, const struct backend_env *env);
void shm_direct_close(struct shm_team *team);

/* Begin the batch of [team] in place, if it may go this way. The same answer on all members. */
bool shm_direct_begin(struct shm_team *team);

/* Advance the batch; *movedp is set if something was done. The batch may turn out to go through the pipeline.
 */
int shm_direct_progress(struct shm_team *team, bool *movedp, struct hvd_error *err);

/* As shm_batch_awaited. */
void shm_direct_awaited(struct shm_team *team, uint64_t awaited[SLOTS_COUNTERS]);

#endif
