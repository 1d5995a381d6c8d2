/* chain.h: the pipelined chain: which chunk of a batch goes where, and when, for backends that pass chunks
 * along the ring of a team's members. It knows no transport and never waits.
 *
 * Allreduce. A chunk starts at member 0 and travels 0 -> 1 -> ... -> size-1 as a PARTIAL result, to which
 * each member adds its own input on the right. The last member finishes it (an average is divided there) and
 * sends the RESULT on round the ring: size-1 -> 0 -> 1 -> ... -> size-2. So each element is reduced once, in
 * the order of members, whatever the chunks, the batch around it or the timing, and all members get the same
 * bits. Reducescatter. The same, but a result travels only as far as the member whose share it is. Chunks end
 * where shares do. On the way a chunk lies in output, at its place among all shares. Broadcast. Each chunk
 * travels root -> root+1 -> ... -> root-1 as a RESULT. Allgather. Each member sends its own block as RESULTs,
 * then all that it receives from the previous member except the block of the next one.
 *
 * A batch with a source does the same, but a member may stand for several ranks: where a member would fold
 * its own input it folds the inputs of these ranks in their order, and inputs and results may lie elsewhere.
 *
 * Each member receives from the previous member of the ring only and sends to the next one only. Chunks of
 * one kind stay in order. A chunk is a number of elements, so that its partial result and its result hold the
 * same elements even if their types differ.
 *
 * Partial results that have the type of the elements lie in output until they have left; they arrive in a
 * slot of scratch memory, and move to output at once. If they are wider, or if the inputs are a source's,
 * they stay in their slots from before they arrive until they have left. So a member may have to let partial
 * results wait until some of its own have left.
 *
 * This cannot deadlock. Assume of the transport: the chunks that a member has begun to send leave, provided
 * that the next member always takes the head of its input in the end. Show by induction from the last member
 * down that each member does take it:
 * - The last member takes every partial result: it turns each into a result at once, which frees the slot. In
 * a reduction it never receives a result.
 * - Let member k+1 take what comes. Then what member k has begun to send leaves, partial or result, so its
 * slots become free and it takes partial results. It can take a result at any time, as the place in output is
 * free: the partial result of the same chunk has left, or there would be no result.
 * - So member k takes what comes, down to member 0, which receives results only.
 * A partial result may also have to wait for the inputs of a source. These may depend on earlier chunks
 * having been folded, but never on a result. */
#ifndef BACKEND_SCHED_CHAIN_H
#define BACKEND_SCHED_CHAIN_H

#include "backend/sched/blocks.h"
#include "backend/spans.h"
#include "backend/arith/reduce.h"

enum chain_kind { CHAIN_PARTIAL, CHAIN_RESULT, CHAIN_KINDS };

/* The chunks of one kind that this member sends, or receives: [0, done) are complete, [done, begun) are on
 * their way. */
struct chain_flow {
    int64_t total, begun, done;
    struct block_cursor next, oldest; /* where chunks [begun] and [done] lie */
};

struct chain {
    int rank, size; /* of the team */
    int64_t chunk_bytes;
    int depth;     /* chunks of a kind on their way at a time, in each direction */
    char *scratch; /* 2 * depth slots of a chunk each */
    char *aside;   /* chunks that lie in several spans, each at its place in the batch */
    int64_t aside_bytes;
    struct span_cursor places;  /* of the batch */
    struct backend_batch batch; /* the one that runs, or ran last */
    struct reduction reduction;
    size_t element_bytes, partial_bytes;
    bool in_slots;       /* partial results stay in slots until they have left */
    int64_t chunk_count; /* elements of a chunk */
    struct blocks blocks;
    int64_t lead;       /* results that begin here and are sent before any received one; negative: received
                           results that stay here and are not sent on */
    int64_t before;     /* chunks of the batch before the first that it receives as a result */
    int64_t own_offset; /* allgather: the place in output of this member's block, which is all of input */
    struct chain_flow in[CHAIN_KINDS];
    struct chain_flow out[CHAIN_KINDS];
};

/* One chunk to send or to receive. */
struct chain_chunk {
    int64_t chunk; /* its number in this batch, among those of the same direction and kind */
    size_t length; /* bytes */
};

/* The batches of this schedule, as backend_ops.supports. */
bool chain_supports(const struct backend_need *need);

/* For [size] >= 2 members. [chunk_bytes] is a multiple of 64 and the same on all of them. Up to [depth]
 * chunks of a kind are being sent, and as many received, at a time. */
int chain_init(struct chain *chain, int rank, int size, int64_t chunk_bytes, int depth,
               struct hvd_error *err);

/* A zeroed struct is fine. */
void chain_fini(struct chain *chain);

/* Begin a batch; the previous one is forgotten. Its memory and its counts stay the caller's, and valid until
 * the batch is complete. HVD_OK or HVD_ERR_NO_MEMORY. */
int chain_start(struct chain *chain, const struct backend_batch *batch, struct hvd_error *err);

/* Sending to the next member. chain_can_send: is a chunk of [kind] ready? Then chain_send returns its bytes
 * and which it is; they do not change until chain_sent reports that this chunk, the oldest of its kind, has
 * left. If both kinds are ready send the result: it is the older chunk, and others wait for it. */
bool chain_can_send(const struct chain *chain, enum chain_kind kind);
const void *chain_send(struct chain *chain, enum chain_kind kind, struct chain_chunk *next);
void chain_sent(struct chain *chain, enum chain_kind kind);

/* Receiving from the previous member. chain_can_receive: may a chunk of [kind] be received now? Then
 * chain_receive returns where its bytes go and which it must be; chain_received reports that the oldest of
 * its kind has arrived, and does the arithmetic. */
bool chain_can_receive(const struct chain *chain, enum chain_kind kind);
void *chain_receive(struct chain *chain, enum chain_kind kind, struct chain_chunk *next);
void chain_received(struct chain *chain, enum chain_kind kind);

/* Must the next partial result wait for a slot, or for the inputs that it is folded with? */
bool chain_must_wait(const struct chain *chain);

/* Does nothing but the previous member keep this one from receiving its next chunk? */
bool chain_waits_for_input(const struct chain *chain);

/* Is more of this batch to be sent, or to be received? If neither, output is complete and input is no longer
 * read. */
bool chain_sends_left(const struct chain *chain);
bool chain_receives_left(const struct chain *chain);

#endif
