/* adasum.h: an allreduce made of log2(members) pairwise exchanges. Each member holds a working vector, which
 * is float32 for narrow types. At level l two members whose numbers differ in bit l exchange their vectors,
 * and both combine them, always with the lower member's first: so both compute the same bits. */
#ifndef FLOW_BATCH_ADASUM_H
#define FLOW_BATCH_ADASUM_H

#include "flow/batch/batch.h"

/* Can [size] members do it? A power of two can. */
bool adasum_supports(int size);

/* What batch_plan, batch_lay_out, batch_pack, batch_transfer_done and batch_unpack do for a batch of Adasum,
 * which has one tensor. */
int adasum_plan(struct batch *batch, struct hvd_error *err);
void adasum_lay_out(struct batch *batch);
void adasum_pack(struct batch *batch);
void adasum_transfer_done(struct batch *batch);
void adasum_unpack(struct batch *batch);

/* Combine one portion of the received vector with this member's own. */
void adasum_combine(struct batch *batch);

#endif
