/* bruck.h: who sends what to whom, and when, in a batch that is so small that steps and messages are what
 * it costs, not bytes: the schedule of recursive doubling. It knows of no transport and never waits.
 *
 * In step k a member talks to the one 2^k after it on the ring of members and listens to the one 2^k before
 * it, so ceil(log2(size)) steps reach all of them, where a ring takes size - 1 or twice that.
 *
 * Broadcast. In step k the 2^k members that have it, the root and those after it, pass it on (a binomial
 * tree). Gathering. A member's memory holds its own block, then that of the member before it, then that of
 * the one before that, and so on round the ring. In step k it sends the first 2^k of them, or as many as are
 * still to be had, and what it gets belongs behind those that it has (Bruck's algorithm). Allgather is that;
 * allreduce and reducescatter gather all inputs, and each member reduces them for itself, in the order of
 * members. Crowded gathering. Where members share nodes they share cores and network cards, and size *
 * log2(size) messages take longer than the steps that they save. There the blocks go to the last member only,
 * by as many of these messages as that needs, and what it makes of them is broadcast: 2 * (size - 1)
 * messages, as many as on the ring, in twice log2(size) steps.
 *
 * Recursive halving, where sums are made on the way, would move fewer bytes. But it adds sums to sums, in an
 * order that depends on the number of members and on where in the tensor an element is. hvd adds each element
 * up in the order of ranks, whatever the plane, so that all planes give the same bits.
 *
 * There is no deadlock. Number the messages of a batch by step, those of the broadcast that follows a
 * gathering behind the others. Whoever sends one waits for messages of lower numbers only, to come or to
 * leave, and so does whoever listens for it; so the lowest one that is not through goes through. */
#ifndef BACKEND_SCHED_BRUCK_H
#define BACKEND_SCHED_BRUCK_H

#include "backend/backend.h"
#include "backend/arith/reduce.h"

/* The largest batch: so many bytes of all blocks together. There it took as long as a ring, on one machine;
 * below it was faster. */
#define DOUBLING_BYTES     ((int64_t)256 * 1024)
#define DOUBLING_MAX_STEPS 31

enum doubling_way { DOUBLING_OUT, DOUBLING_IN, DOUBLING_WAYS };

/* A message. */
struct doubling_piece {
    int step;
    char *bytes; /* of DOUBLING_OUT only read */
    size_t length;
};

struct doubling_move {
    struct doubling_piece piece;
    int after; /* when so many have come in */
};

/* What one member sends, or receives, in this order. */
struct doubling_side {
    struct doubling_move moves[2 * DOUBLING_MAX_STEPS];
    int count, done;
};

struct doubling {
    int rank, size; /* of the team */
    bool crowded;
    int step_count;
    char *gathered;           /* blocks, this member's first */
    char *sum;                /* partial results where they are wider than elements */
    struct plane_batch batch; /* the one that runs, or ran last */
    struct reduction reduction;
    size_t element_bytes;
    struct doubling_side sides[DOUBLING_WAYS];
    int complete; /* when so many have come in, all blocks are there for the output; -1: it comes from
                     elsewhere */
};

/* May this batch go this way? The same on all members, and by the batch alone. */
bool doubling_can(const struct plane_batch *batch);

/* Steps of [size] members. */
int doubling_steps(int size);

/* For [size] >= 2 members; [crowded]: some share nodes, the same on all of them. */
int doubling_init(struct doubling *doubling, int rank, int size, bool crowded, struct hvd_error *err);
/* A zeroed one is fine. */
void doubling_fini(struct doubling *doubling);

/* Begin a batch that doubling_can carry; the one before is forgotten. Its counts are borrowed, as its memory
 * is.
 */
void doubling_start(struct doubling *doubling, const struct plane_batch *batch);

/* The message that goes that way next; false where none does yet, or any more. It stays the same until
 * doubling_through says that it is through. That is all that has to be listened for. */
bool doubling_piece(const struct doubling *doubling, enum doubling_way way, struct doubling_piece *piece);
void doubling_through(struct doubling *doubling, enum doubling_way way);

/* Is there more of this batch to send or to receive? Otherwise output is complete and input is no longer
 * read. */
bool doubling_left(const struct doubling *doubling);

#endif
