/* doubling.h: who sends what to whom, and when, in a batch that is so small that the number of steps is what
 * it costs: the schedule of recursive doubling. It knows of no transport and never waits.
 *
 * In step k each member talks to the one 2^k after it on the ring of members and listens to the one 2^k
 * before it, so ceil(log2(size)) steps reach all of them, where a ring takes size - 1 or twice that.
 *
 * Gathering. A member's memory holds the blocks of itself, of the one before it, of the one before that and
 * so on round the ring. In step k it sends the first 2^k of them, or as many as are still to be had, and what
 * it gets belongs behind those that it has (Bruck's algorithm). Allgather is that. Allreduce and
 * reducescatter gather all inputs, and each member reduces them for itself, in the order of members.
 * Broadcast. In step k the 2^k members that have it, the root and those after it, pass it on (a binomial
 * tree).
 *
 * Sums that are halved and doubled on their way, as recursive halving has it, would move fewer bytes. But
 * they add up pairs of sums, in an order that depends on the number of members and on which half of the ranks
 * an element is in; hvd adds each element in the order of ranks, whatever the plane, so that all planes give
 * the same bits.
 *
 * There is no deadlock: of the steps that are not through everywhere take the lowest. Whoever waits in it has
 * all of the steps before, and listens; so does the one it waits for, and so that one sends. */
#ifndef PLANE_DOUBLING_H
#define PLANE_DOUBLING_H

#include "plane/plane.h"
#include "plane/reduce.h"

/* The largest batch: so many bytes of all blocks together, which each member has in the end. */
#define DOUBLING_BYTES     ((int64_t)256 * 1024)
#define DOUBLING_MAX_STEPS 31

enum doubling_way { DOUBLING_OUT, DOUBLING_IN, DOUBLING_WAYS };

struct doubling {
    int rank, size; /* of the team */
    int step_count;
    char *gathered;           /* blocks, this member's first */
    char *sum;                /* partial results where they are wider than elements */
    struct plane_batch batch; /* the one that runs, or ran last */
    struct reduction reduction;
    size_t element_bytes;
    size_t ends[DOUBLING_MAX_STEPS + 1]; /* bytes of the first 2^k blocks, or of all */
    size_t last_length;                  /* bytes to send in the last step */
    int steps[DOUBLING_WAYS];            /* that comes next */
    int limits[DOUBLING_WAYS];           /* the step behind the last */
};

/* What goes in a step. */
struct doubling_piece {
    int step;
    char *bytes; /* of DOUBLING_OUT only read */
    size_t length;
};

/* May this batch go this way? The same on all members, and by the batch alone. */
bool doubling_can(const struct plane_batch *batch);

/* Steps of [size] members. */
int doubling_steps(int size);

/* For [size] >= 2 members. */
int doubling_init(struct doubling *doubling, int rank, int size, struct hvd_error *err);
/* A zeroed one is fine. */
void doubling_fini(struct doubling *doubling);

/* Begin a batch that doubling_can carry; the one before is forgotten. Its counts are borrowed, as its memory
 * is.
 */
void doubling_start(struct doubling *doubling, const struct plane_batch *batch);

/* What goes that way next; false where nothing does yet, or any more. It stays the same until
 * doubling_through says that it is through. Whoever listens need not do so in more than this one step. */
bool doubling_piece(const struct doubling *doubling, enum doubling_way way, struct doubling_piece *piece);
void doubling_through(struct doubling *doubling, enum doubling_way way);

/* Is there more of this batch to send or to receive? */
bool doubling_left(const struct doubling *doubling);

/* Nothing is left to send or receive: the arithmetic, and the output. */
void doubling_finish(struct doubling *doubling);

#endif
