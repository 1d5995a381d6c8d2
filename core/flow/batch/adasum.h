/* adasum.h: the allreduce that consists of log2(members) pairwise exchanges. Each member has a working
 * vector, which is float32 for narrow types. At level l, two members whose numbers differ in bit l exchange
 * their vectors. Both combine them in the same order, the lower member's vector first, so both get the same
 * bits. */
#ifndef FLOW_BATCH_ADASUM_H
#define FLOW_BATCH_ADASUM_H

#include "flow/batch/batch.h"

/* Does Adasum work for [size] members? It does for powers of two. */
bool adasum_supports(int size);

/* For a batch of Adasum, which has one tensor, call these instead of layout_plan, layout_place, layout_pack,
 * layout_transferred and layout_unpack. */
int adasum_plan(struct batch *batch, struct hvd_error *err);
void adasum_place(struct batch *batch, void *buffer);
void adasum_pack(struct batch *batch);
void adasum_transferred(struct batch *batch);
void adasum_unpack(struct batch *batch);

/* Combine one portion of the received vector with that of this member. */
void adasum_combine(struct batch *batch);

#endif
