/* shm_direct.h: the third way of batches in the backend of shared memory: an allreduce whose inputs and
 * outputs lie in the members' windows, all of them on all members, is reduced there. No byte is copied, and
 * whoever is free does the next chunk, for all.
 *
 * To the slots such a batch is a single chunk, which holds what each member tells of its places:
 *   give   it has told where its elements lie, or that it cannot say
 *   reduce    it has read what all others told; and no chunk is left that nobody does, nor does it itself any
 * So all have reduced it when the results are there. Where a member could not say, the batch goes on by
 * chunks that are copied, behind that one; that member does not wait to hear the others before. */
#ifndef BACKEND_SHM_SHM_DIRECT_H
#define BACKEND_SHM_SHM_DIRECT_H

#include "backend/backend.h"
#include "node/slots.h"

struct shm_team;

/* The smallest batch that is told of: of others the copies are faster. */
#define SHM_DIRECT_BYTES ((int64_t)32 * 1024)

enum direct_phase { DIRECT_OFF, DIRECT_PUBLISH, DIRECT_ATTACH, DIRECT_REDUCE, DIRECT_DRAIN };

/* Elements whose inputs lie together in the window of one member, and their outputs too. */
struct direct_range {
    int64_t begin, count;
    uint64_t input, output; /* where in the window */
};

/* What a member told, and where in it this one is. */
struct direct_member {
    const volatile struct direct_range *ranges; /* shared */
    int64_t range_count, next;
    int window;                /* of its window */
    struct direct_range range; /* the one before next, copied */
    char *input, *output;      /* of its elements; checked */
};

/* One process set's. */
struct shm_direct {
    const struct windows *windows;
    int64_t least_bytes;
    struct direct_member *members; /* [size] */
    /* the batch that ranges */
    enum direct_phase phase; /* DIRECT_OFF: it goes another way */
    int64_t chunk_count;     /* elements of a chunk */
    uint64_t begin, end;     /* its chunks among all of the set's that went this way */
    int64_t at, left;        /* elements of the chunk that this member does */
};

/* [env]'s windows are borrowed; a member without any says of all batches that it cannot. False: no memory. */
bool shm_direct_open(struct shm_team *team, const struct backend_env *env);
void shm_direct_close(struct shm_team *team);

/* Begin the batch of [team], if it may go this way: the same on all members. */
bool shm_direct_begin(struct shm_team *team);

/* Further with it, if that can be now: *movedp. It may turn out that it goes another way. */
int shm_direct_progress(struct shm_team *team, bool *movedp, struct hvd_error *err);

/* As shm_awaited. */
void shm_direct_awaited(struct shm_team *team, uint64_t awaited[SLOTS_COUNTERS]);

#endif
