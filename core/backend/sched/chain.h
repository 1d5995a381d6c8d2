/* chain.h: which chunk of a batch goes where, and when: the schedule of the backends that pass chunks along
 * the ring of a team's members. It knows of no transport and never waits.
 *
 * Allreduce. A chunk begins at member 0 and goes 0 -> 1 -> ... -> size-1 as a PARTIAL result, to which each
 * member adds its own input on the right. The last one finishes it (an average is divided there) and sends
 * the RESULT on round the ring: size-1 -> 0 -> 1 -> ... -> size-2. So each element is reduced in the order of
 * members, once, whatever the chunks, the batch around it or the timing, and all members have the same bits.
 * Reducescatter. The same, but that a result goes no further than to the member whose share it is; chunks end
 * where shares do. On its way it lies in output, at its place among all shares.
 * Broadcast. Each chunk goes root -> root+1 -> ... -> root-1 as a RESULT.
 * Allgather. Each member sends its own block as RESULTs, then what it has got from the previous member, all
 * but the block of the next one.
 *
 * A batch with a source is the same, but that a member may stand for several ranks, whose inputs it folds in
 * their order where a single one would fold its own, and that inputs and the places of results may be
 * elsewhere.
 *
 * Each member hears from the previous one of the ring only and talks to the next one only; chunks of one kind
 * go in order. A chunk is a number of elements, so that its partial result and its result are of the same
 * ones where their types differ.
 *
 * Where partial results have the type of elements they lie in output until they have left; they come into a
 * slot of scratch, and leave it for the output at once. Where they are wider, and where inputs are a
 * source's, they live in slots: on their way in, and then until they have left. So a member may have to let
 * partials wait until some of its own have left. That is no deadlock. Say that what comes to a member does
 * not wait for ever if whatever waits at its head is sooner or later taken. The last member takes all
 * partials: it turns each into a result at once, which frees the slot, and results are never sent to it in a
 * reduction. If member k+1 takes what comes, then what member k has begun to send leaves, partial or result,
 * so its slots get free and it takes partials; and results it takes at any time, as their places in output
 * are there from the start: the partial of the same chunk has left, for without it there would be no result.
 * So member k takes what comes too, down to member 0, which gets results only. A partial may also have to
 * wait for the inputs of a source: these may depend on earlier chunks having been folded, never on a result.
 */
#ifndef BACKEND_SCHED_CHAIN_H
#define BACKEND_SCHED_CHAIN_H

#include "backend/sched/blocks.h"
#include "backend/backend.h"
#include "backend/arith/reduce.h"

enum chain_kind { CHAIN_PARTIAL, CHAIN_RESULT, CHAIN_KINDS };

/* What one member sends, or receives, of one kind: chunks [0, done) are through, [done, begun) are on their
 * way. */
struct chain_flow {
    int64_t total, begun, done;
    struct block_cursor next, oldest; /* where chunks [begun] and [done] lie */
};

struct chain {
    int rank, size; /* of the team */
    int64_t chunk_bytes;
    int window;
    char *scratch;              /* 2 * window slots of a chunk each */
    struct backend_batch batch; /* the one that runs, or ran last */
    struct reduction reduction;
    size_t element_bytes, partial_bytes;
    bool in_slots;       /* partial results stay in their slots until they have left */
    int64_t chunk_count; /* elements of a chunk */
    struct blocks blocks;
    int64_t lead;       /* chunks of its own that it sends before the first result that it got; negative:
                           those it keeps */
    int64_t before;     /* chunks before the first that it receives as a result */
    int64_t own_offset; /* allgather: where in output this member's block is, which is all of input */
    struct chain_flow in[CHAIN_KINDS];
    struct chain_flow out[CHAIN_KINDS];
};

/* A chunk on its way. */
struct chain_chunk {
    int64_t chunk; /* its number among those that go the same way as the same kind, in this batch */
    size_t length; /* bytes */
};

/* What this schedule can carry, as backend_ops.supports. */
bool chain_supports(const struct backend_need *need);

/* For [size] >= 2 members; [chunk_bytes] is a multiple of 64 and the same on all of them; up to [window]
 * chunks of a kind are sent, and received, at a time. */
int chain_init(struct chain *chain, int rank, int size, int64_t chunk_bytes, int window,
               struct hvd_error *err);
/* A zeroed chain is fine. */
void chain_fini(struct chain *chain);

/* Begin a batch; the one before is forgotten. Its counts are borrowed, as its memory is. */
void chain_start(struct chain *chain, const struct backend_batch *batch);

/* Sending to the next member. May a chunk of [kind] go out now? Then chain_send says which and where it lies;
 * the bytes stay as they are until chain_sent says that the oldest one sent of that kind has left. Where both
 * kinds may go, send the result: it is the older chunk, and others wait for it. */
bool chain_can_send(const struct chain *chain, enum chain_kind kind);
const void *chain_send(struct chain *chain, enum chain_kind kind, struct chain_chunk *piece);
void chain_sent(struct chain *chain, enum chain_kind kind);

/* Receiving from the previous member. May a chunk of [kind] come in now? Then chain_receive says which must
 * come next and where its bytes go; chain_received says that the oldest one of that kind is there, and does
 * the arithmetic. */
bool chain_can_receive(const struct chain *chain, enum chain_kind kind);
void *chain_receive(struct chain *chain, enum chain_kind kind, struct chain_chunk *piece);
void chain_received(struct chain *chain, enum chain_kind kind);

/* Must a partial that is due wait: for a slot, or for the inputs that it is to meet? */
bool chain_must_wait(const struct chain *chain);

/* Is there more of this batch to send, to receive? Where neither, output is complete and input is no longer
 * read. */
bool chain_sends_left(const struct chain *chain);
bool chain_receives_left(const struct chain *chain);

#endif
