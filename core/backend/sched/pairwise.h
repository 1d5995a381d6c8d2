/* pairwise.h: the pairwise exchange: which chunk of an alltoall goes where, and when, for backends that
 * connect each member with each other. It knows no transport and never waits.
 *
 * A member sends to the members after it on the ring, the nearest first, and receives from those before it,
 * the nearest first. It works on a few pairs at a time, one in each lane, with as many lanes in each
 * direction. A lane carries its pair's chunks in order, then takes the next pair. Both ends leave out pairs
 * that have no data.
 *
 * This cannot deadlock. Of the incomplete pairs consider one with the smallest distance: all nearer pairs are
 * complete at both its ends, so it has a lane at both. With a feed, its chunks are the next to become ready.
 */
#ifndef BACKEND_SCHED_PAIRWISE_H
#define BACKEND_SCHED_PAIRWISE_H

#include "backend/sched/blocks.h"
#include "backend/backend.h"

#define PAIRWISE_LANES 8

enum pairwise_direction { PAIRWISE_SEND, PAIRWISE_RECEIVE, PAIRWISE_DIRECTIONS };

/* A pair that is being sent, or received. */
struct pairwise_lane {
    bool busy;
    int member;     /* the other end */
    int64_t chunk;  /* the current chunk: its number in this pair and direction */
    int64_t number; /* of the pair's first chunk, among those of all pairs in this direction */
    int64_t offset; /* of the current chunk's first element, in input or output */
    int64_t left;   /* elements of the run from there on */
    int64_t rest;   /* elements of the pair's second run, if that is still to come */
    int64_t start;  /* where the second run begins */
};

/* Everything that is sent, or received. */
struct pairwise_side {
    struct blocks blocks;
    struct block_cursor cursor;
    const int64_t *begins; /* by member: where its first run begins; NULL: each pair is one run */
    int64_t chunks;        /* of the pairs that have got a lane so far */
    int waiting;           /* pairs that have not got a lane yet */
    int busy;              /* lanes that have a pair */
    struct pairwise_lane lanes[PAIRWISE_LANES];
};

struct pairwise {
    int rank, size; /* of the team */
    int64_t chunk_bytes;
    struct backend_batch batch; /* the one that runs, or ran last */
    size_t element_bytes;
    int64_t chunk_count; /* elements of a chunk */
    struct pairwise_side sides[PAIRWISE_DIRECTIONS];
    const char *own_input; /* this member's part for itself, as far as it is still to be copied */
    char *own_output;
    int64_t own_bytes;
};

/* The current chunk of a lane. */
struct pairwise_chunk {
    int member;
    int64_t chunk;
    char *bytes; /* only read for PAIRWISE_SEND */
    size_t length;
};

/* The batches of this schedule, as backend_ops.supports. */
bool pairwise_supports(const struct backend_need *need);

/* For [size] >= 2 members. [chunk_bytes] is a multiple of 64 and the same on all of them. Nothing needs to be
 * freed. */
void pairwise_init(struct pairwise *pairwise, int rank, int size, int64_t chunk_bytes);

/* Begin a batch; the previous one is forgotten. Its memory, its counts and its feed stay the caller's, and
 * valid until the batch is complete. */
void pairwise_start(struct pairwise *pairwise, const struct backend_batch *batch);

/* The current chunk of a lane; false if it has none, or if the feed does not have it yet. It stays the same
 * until pairwise_chunk_done reports it sent or received. */
bool pairwise_next(const struct pairwise *pairwise, enum pairwise_direction direction, int lane,
                   struct pairwise_chunk *chunk);
void pairwise_chunk_done(struct pairwise *pairwise, enum pairwise_direction direction, int lane);

/* Is this the last chunk of its pair? */
bool pairwise_is_last(const struct pairwise *pairwise, enum pairwise_direction direction, int lane);

/* Copy some of this member's part for itself; false if all of it is copied. */
bool pairwise_copy_own(struct pairwise *pairwise);

/* Is more of this batch to be done? If not, output is complete and input is no longer read. */
bool pairwise_left(const struct pairwise *pairwise);

#endif
