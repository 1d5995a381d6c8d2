/* bruck.h: who sends what to whom, and when, in a batch that is so small that steps and messages are what
 * it costs, not bytes: the schedule of recursive bruck. It knows of no transport and never waits.
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
 * Recursive halving, where sums are made on the direction, would move fewer bytes. But it adds sums to sums,
 * in an order that depends on the number of members and on where in the tensor an element is. hvd adds each
 * element up in the order of ranks, whatever the backend, so that all backends give the same bits.
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
#define BRUCK_BYTES     ((int64_t)256 * 1024)
#define BRUCK_MAX_STEPS 31

enum bruck_direction { BRUCK_SEND, BRUCK_RECEIVE, BRUCK_DIRECTIONS };

/* A message. */
struct bruck_message {
    int step;
    char *bytes; /* of BRUCK_SEND only read */
    size_t length;
};

struct bruck_transfer {
    struct bruck_message piece;
    int after; /* when so many have come in */
};

/* What one member sends, or receives, in this order. */
struct bruck_transfers {
    struct bruck_transfer transfers[2 * BRUCK_MAX_STEPS];
    int count, done;
};

struct bruck {
    int rank, size; /* of the team */
    bool crowded;
    int step_count;
    char *gathered;             /* blocks, this member's first */
    char *sum;                  /* partial results where they are wider than elements */
    struct backend_batch batch; /* the one that runs, or ran last */
    struct reduction reduction;
    size_t element_bytes;
    struct bruck_transfers sides[BRUCK_DIRECTIONS];
    int complete; /* when so many have come in, all blocks are there for the output; -1: it comes from
                     elsewhere */
};

/* May this batch go this direction? The same on all members, and by the batch alone. */
bool bruck_supports(const struct backend_batch *batch);

/* Steps of [size] members. */
int bruck_step_count(int size);

/* For [size] >= 2 members; [crowded]: some share nodes, the same on all of them. */
int bruck_init(struct bruck *bruck, int rank, int size, bool crowded, struct hvd_error *err);
/* A zeroed one is fine. */
void bruck_fini(struct bruck *bruck);

/* Begin a batch that bruck_supports carry; the one before is forgotten. Its counts are borrowed, as its
 * memory is.
 */
void bruck_start(struct bruck *bruck, const struct backend_batch *batch);

/* The message that goes that direction next; false where none does yet, or any more. It stays the same until
 * bruck_message_done says that it is through. That is all that has to be listened for. */
bool bruck_next(const struct bruck *bruck, enum bruck_direction direction, struct bruck_message *piece);
void bruck_message_done(struct bruck *bruck, enum bruck_direction direction);

/* Is there more of this batch to send or to receive? Otherwise output is complete and input is no longer
 * read. */
bool bruck_left(const struct bruck *bruck);

#endif
