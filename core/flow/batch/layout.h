/* layout.h: where the tensors of a batch lie for its transfer, in place or in a buffer, and how they are
 * packed into the buffer and unpacked from it. */
#ifndef FLOW_BATCH_LAYOUT_H
#define FLOW_BATCH_LAYOUT_H

#include "flow/batch/batch.h"

/* Packing and unpacking copy at most this much in one step, which takes about 100 us: messages of other ranks
 * are answered between steps. */
#define LAYOUT_PORTION_BYTES (INT64_C(512) << 10)

/* Does NCCL not apply the factors of this batch? They are applied where it is packed and unpacked. */
bool layout_scales(const struct batch *batch);

/* Does the share of a reducescatter go onto the input? It goes to where that begins, but NCCL reduces in
 * place only at this member's own share of it. */
bool layout_shares_in_place(const struct batch *batch);

/* First half: set batch->buffer_bytes. Results have their memory: a rank that has none for a result takes
 * part in the transfer all the same, into the buffer. */
int layout_plan(struct batch *batch, struct hvd_error *err);

/* Second half: [buffer] has room for buffer_bytes. */
void layout_place(struct batch *batch, void *buffer);

/* Copy one portion. */
void layout_pack(struct batch *batch);
void layout_unpack(struct batch *batch);

/* The transfer that was laid out is done. */
void layout_transferred(struct batch *batch);

/* Elements of [tensor] in [part]. */
int64_t layout_part_elements(const struct batch *batch, const struct request_tensor *tensor, int part);

/* Where this rank's part begins in the buffer, in elements. */
int64_t layout_own_offset(const struct batch *batch);

/* Move the cursor to [first_part], which begins at element [buffer_at] of the buffer; it ends after
 * [last_part]. */
void layout_rewind(struct batch *batch, int first_part, int last_part, int64_t buffer_at);

#endif
