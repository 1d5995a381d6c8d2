/* bruck.h: which message goes where, and when, in a small batch, whose cost is its steps and messages rather
 * than its bytes. It knows no transport and never waits.
 *
 * In step k a member sends to the one 2^k after it on the ring of members and receives from the one 2^k
 * before it, so ceil(log2(size)) steps reach all members, where a ring takes size - 1 or twice as many. Over
 * these connections go:
 *
 * Broadcast: a binomial tree. In step k the 2^k members that have the data, the root and those after it, send
 * it on. Allgather: Bruck's algorithm. A member's memory holds its own block, then the block of the member
 * before it, then that of the member before that one, and so on round the ring. In step k it sends the first
 * 2^k blocks, or as many as the receiver still lacks, and appends what it receives. Allreduce and
 * reducescatter: the same allgather of all inputs; then each member reduces them for itself, in the order of
 * members. If members share nodes, and with them cores and network cards, size * log2(size) messages take
 * longer than the steps that they save. Then all but broadcast are a gather to the last member, by those of
 * the messages that it needs (a binomial tree), and a broadcast of what that member makes of them: 2 * (size
 * - 1) messages, as many as on the ring, in 2 * log2(size) steps.
 *
 * Recursive halving or doubling of partial sums would move fewer bytes. But it adds sums to sums, in an order
 * that depends on the number of members and on where in the tensor an element lies. hvd adds up each element
 * in the order of ranks, whatever the backend, so that all backends give the same bits.
 *
 * This cannot deadlock. Number the messages of a batch by step, those of a broadcast after a gather behind
 * the others. The sender of a message waits only for messages of lower numbers, to be received or to be sent,
 * and so does its receiver. So the incomplete message with the lowest number completes. */
#ifndef BACKEND_SCHED_BRUCK_H
#define BACKEND_SCHED_BRUCK_H

#include "backend/backend.h"
#include "backend/arith/reduce.h"

/* The largest batch, as bytes of all blocks together. At this size it took as long as the ring, on one
 * machine; below that it was faster. */
#define BRUCK_BYTES     ((int64_t)256 * 1024)
#define BRUCK_MAX_STEPS 31

enum bruck_direction { BRUCK_SEND, BRUCK_RECEIVE, BRUCK_DIRECTIONS };

struct bruck_message {
    int step;
    char *bytes; /* only read for BRUCK_SEND */
    size_t length;
};

struct bruck_transfer {
    struct bruck_message message;
    int after; /* not before this many have been received */
};

/* The messages that this member sends, or receives, in this order. */
struct bruck_transfers {
    struct bruck_transfer transfers[2 * BRUCK_MAX_STEPS];
    int count, done;
};

struct bruck {
    int rank, size; /* of the team */
    bool shares_nodes;
    int step_count;
    char *gathered;             /* blocks: this member's, then those of the members before it on the ring */
    char *sum;                  /* partial results, if they are wider than elements */
    struct backend_batch batch; /* the one that runs, or ran last */
    struct reduction reduction;
    size_t element_bytes;
    struct bruck_transfers sides[BRUCK_DIRECTIONS];
    int complete; /* once this many have been received all blocks are there, and the output is made from them;
                     -1: the output itself is received */
};

/* Is the batch small enough, and of a kind that goes this way? Depends on the batch alone, so all members get
 * the same answer. */
bool bruck_supports(const struct backend_batch *batch);

/* Steps of [size] members. */
int bruck_step_count(int size);

/* For [size] >= 2 members. [shares_nodes]: some members are on the same node; the same on all of them. */
int bruck_init(struct bruck *bruck, int rank, int size, bool shares_nodes, struct hvd_error *err);

/* A zeroed struct is fine. */
void bruck_fini(struct bruck *bruck);

/* Begin a batch that bruck_supports; the previous one is forgotten. Its memory and its counts stay the
 * caller's, and valid until the batch is complete. */
void bruck_start(struct bruck *bruck, const struct backend_batch *batch);

/* The next message in this direction; false if none is ready or none is left. It stays the same until
 * bruck_message_done reports it sent or received. No other message comes before it. */
bool bruck_next(const struct bruck *bruck, enum bruck_direction direction, struct bruck_message *message);
void bruck_message_done(struct bruck *bruck, enum bruck_direction direction);

/* Is more of this batch to be sent or received? If not, output is complete and input is no longer read. */
bool bruck_left(const struct bruck *bruck);

#endif
