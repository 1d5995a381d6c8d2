/* pairwise.h: which chunk of an alltoall goes to whom, and when: the schedule of the backends that send from
 * each member to each. It knows of no transport and never waits.
 *
 * A member sends to those behind it on the ring, the nearest first, and receives from those before it, the
 * nearest first. It works on a few pairs at a time, in as many lanes each direction; a lane takes chunk after
 * chunk of its pair, then the next pair. Pairs that have nothing to say to each other are left out at both
 * ends. There is no deadlock: of the pairs that are not through yet let one be of the smallest distance; all
 * nearer ones are through at both its ends, so it has its lane at both, and of a feed its chunks come next.
 */
#ifndef BACKEND_SCHED_PAIRWISE_H
#define BACKEND_SCHED_PAIRWISE_H

#include "backend/sched/blocks.h"
#include "backend/backend.h"

#define PAIRWISE_LANES 8

enum pairwise_direction { PAIRWISE_SEND, PAIRWISE_RECEIVE, PAIRWISE_DIRECTIONS };

/* A pair on its direction. */
struct pairwise_lane {
    bool busy;
    int member;     /* the other end */
    int64_t chunk;  /* the one that goes now: its number in this pair and direction */
    int64_t number; /* of the pair's first chunk among those of all members, in this direction */
    int64_t offset; /* of its first element, among those of all members */
    int64_t left;   /* elements of the run from there on */
    int64_t rest;   /* elements of the pair's second run, where it is still to come */
    int64_t start;  /* where that begins */
};

/* What is sent, or received. */
struct pairwise_side {
    struct blocks blocks;
    struct block_cursor cursor;
    const int64_t *begins; /* where the first run of a pair begins; NULL: each is one run */
    int64_t chunks;        /* of the pairs that have had a lane */
    int waiting;           /* pairs that have had none yet */
    int busy;              /* lanes */
    struct pairwise_lane lanes[PAIRWISE_LANES];
};

struct pairwise {
    int rank, size; /* of the team */
    int64_t chunk_bytes;
    struct backend_batch batch; /* the one that runs, or ran last */
    size_t element_bytes;
    int64_t chunk_count; /* elements of a chunk */
    struct pairwise_side sides[PAIRWISE_DIRECTIONS];
    const char *own_input; /* what stays here, and is still to be copied */
    char *own_output;
    int64_t own_bytes;
};

/* What a lane is about. */
struct pairwise_chunk {
    int member;
    int64_t chunk;
    char *bytes; /* of PAIRWISE_SEND only read */
    size_t length;
};

/* What this schedule can carry, as backend_ops.supports. */
bool pairwise_supports(const struct backend_need *need);

/* For [size] >= 2 members; [chunk_bytes] is a multiple of 64 and the same on all of them. Nothing has to be
 * given back. */
void pairwise_init(struct pairwise *pairwise, int rank, int size, int64_t chunk_bytes);

/* Begin a batch; the one before is forgotten. Its counts and its feed are borrowed, as its memory is. */
void pairwise_start(struct pairwise *pairwise, const struct backend_batch *batch);

/* What goes in a lane now; false where nothing does, or where its input is not there yet. It stays the same
 * until pairwise_chunk_done says that it is through. */
bool pairwise_next(const struct pairwise *pairwise, enum pairwise_direction direction, int lane,
                   struct pairwise_chunk *piece);
void pairwise_chunk_done(struct pairwise *pairwise, enum pairwise_direction direction, int lane);

/* Is this the last chunk of its pair? */
bool pairwise_is_last(const struct pairwise *pairwise, enum pairwise_direction direction, int lane);

/* Copy some of what stays here; false where all of it is copied. */
bool pairwise_copy_own(struct pairwise *pairwise);

/* Is there more of this batch to do? Otherwise output is complete and input is no longer read. */
bool pairwise_left(const struct pairwise *pairwise);

#endif
