/* chain.h: which chunk of a batch goes where, and when: the schedule of the planes that pass chunks along the
 * ring of ranks. It knows of no transport and never waits.
 *
 * Allreduce. A chunk begins at rank 0 and goes 0 -> 1 -> ... -> size-1 as a PARTIAL sum, to which each rank
 * adds its own input on the right. The last rank finishes it (an average is divided there) and sends the
 * RESULT on round the ring: size-1 -> 0 -> 1 -> ... -> size-2. So each element is summed in the order of
 * ranks, once, whatever the chunks, the batch around it or the timing, and all ranks have the same bits.
 * Broadcast. Each chunk goes root -> root+1 -> ... -> root-1 as a RESULT.
 *
 * Each rank hears from the previous rank of the ring only and talks to the next one only; chunks of one kind
 * go in order. Receiving never depends on being able to send: a partial goes into scratch and is added to the
 * input, into the output, at once; a result goes straight into the output, and the partial of the same chunk
 * has left by then, for without it there would be no result. So there is no deadlock, and the input is never
 * written. */
#ifndef PLANE_CHAIN_H
#define PLANE_CHAIN_H

#include "plane/plane.h"

enum chain_kind { CHAIN_PARTIAL, CHAIN_RESULT, CHAIN_KINDS };

/* What one rank sends, or receives, of one kind: chunks [0, done) are through, [done, begun) are on their
 * way. */
struct chain_flow {
    int64_t total, begun, done;
};

struct chain {
    int rank, size;
    int64_t chunk_bytes;
    int slots; /* chunks that fit into scratch */
    char *scratch;
    struct plane_batch batch; /* the one that runs, or ran last */
    size_t element_bytes;
    int64_t bytes; /* of the batch */
    struct chain_flow in[CHAIN_KINDS];
    struct chain_flow out[CHAIN_KINDS];
};

/* A chunk on its way. */
struct chain_piece {
    int64_t chunk; /* its number in the batch */
    size_t length; /* bytes: those of a whole chunk, but for the last */
};

/* What this schedule can carry, as plane_ops.can. */
bool chain_can(const struct plane_need *need);

/* For [size] >= 2 ranks; [chunk_bytes] is a multiple of 64 and the same on all of them; up to [slots]
 * partials may be on their way in at a time. */
int chain_init(struct chain *chain, int rank, int size, int64_t chunk_bytes, int slots,
               struct hvd_error *err);
/* A zeroed chain is fine. */
void chain_fini(struct chain *chain);

/* Begin a batch; the one before is forgotten. */
void chain_start(struct chain *chain, const struct plane_batch *batch);

/* Sending to the next rank. May a chunk of [kind] go out now? Then chain_send says which and where it lies;
 * the bytes stay as they are until chain_sent says that the oldest one sent of that kind has left. Where both
 * kinds may go, send the result: it is the older chunk, and others wait for it. */
bool chain_can_send(const struct chain *chain, enum chain_kind kind);
const void *chain_send(struct chain *chain, enum chain_kind kind, struct chain_piece *piece);
void chain_sent(struct chain *chain, enum chain_kind kind);

/* Receiving from the previous rank. May a chunk of [kind] come in now? Then chain_receive says which must
 * come next and where its bytes go; chain_received says that the oldest one of that kind is there, and does
 * the arithmetic. */
bool chain_can_receive(const struct chain *chain, enum chain_kind kind);
void *chain_receive(struct chain *chain, enum chain_kind kind, struct chain_piece *piece);
void chain_received(struct chain *chain, enum chain_kind kind);

/* Is there more of this batch to send, to receive? Where neither, output is complete and input is no longer
 * read. */
bool chain_sends_left(const struct chain *chain);
bool chain_receives_left(const struct chain *chain);

#endif
