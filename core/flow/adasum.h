/* adasum.h: an allreduce that is made of exchanges between two members, as many as the team's size has bits.
 * Each member holds a working vector, float32 for half types. At level l those whose place differs in bit l
 * exchange their vectors and both blend them, the lower group's first: so all of a group hold the same bits.
 */
#ifndef FLOW_ADASUM_H
#define FLOW_ADASUM_H

#include "flow/batch.h"

/* A team of [size] members can do it. */
bool adasum_supports(int size);

/* As batch_plan, batch_lay_out, batch_pack, batch_transfer_done and batch_unpack, of a batch of one Adasum.
 */
int adasum_plan(struct batch *batch, struct hvd_error *err);
void adasum_lay_out(struct batch *batch);
void adasum_pack(struct batch *batch);
void adasum_transfer_done(struct batch *batch);
void adasum_unpack(struct batch *batch);

/* One slice of combining what came with what is here. */
void adasum_combine(struct batch *batch);

#endif
