/* staging.h: GPU tensors that a backend for host memory transfers. They are copied into pinned host memory
 * before their batch is laid out, and the results are copied back afterwards. In between, the batch uses the
 * pinned memory as its tensors. If the backend can transfer GPU memory itself, the batch takes the same steps
 * without the copies, except that of this rank's own part of the result, which such a backend skips. */
#ifndef FLOW_BATCH_STAGING_H
#define FLOW_BATCH_STAGING_H

#include "flow/batch/batch.h"

/* Before FETCH, in the same way on all members of the set: cut a long allreduce or broadcast. The backend
 * then transfers one batch while the next is copied to the host and the previous one back to the GPU.
 * [*restp]: the remainder, which must be the next batch; NULL if there is none. */
int staging_cut(struct batch *batch, struct batch **restp, struct hvd_error *err);

/* Can a backend that accepts GPU memory transfer the batch without staging? Yes if the batch needs neither a
 * reduction nor packing. */
bool staging_can_hand(const struct batch *batch);

/* FETCH: enqueue the copies of all inputs in the queue for batches, each after the work that its tensor waits
 * for. */
int staging_fetch(struct batch *batch, struct hvd_error *err);

/* Allgather, alltoall: the results have GPU memory now; give them host memory as well. */
int staging_place_results(struct batch *batch, struct hvd_error *err);

/* STORE: enqueue the copies of all results in the queue for results. From here on the batch uses the GPU
 * tensors again. */
int staging_store(struct batch *batch, struct hvd_error *err);

/* The batch is abandoned: use the GPU tensors again, without copying results. */
void staging_return(struct batch *batch);

#endif
