/* staging.h: tensors on the GPU that a backend of host memory carries: they are copied into pinned memory of
 * the host before their batch is laid out, and their results back after it. In between the batch takes that
 * memory for the tensors. A batch that is handed to the backend as it is makes the same steps without copies,
 * but this rank's own part of the result, which the backend leaves out. */
#ifndef FLOW_BATCH_STAGING_H
#define FLOW_BATCH_STAGING_H

#include "flow/batch/batch.h"

/* Before FETCH, on all members of the set alike: cut a long allreduce or broadcast, so that one batch is at
 * work in host memory while the next is copied there and the one before it back. [*restp]: what must become a
 * batch of its own and come next; otherwise NULL. */
int staging_cut(struct batch *batch, struct batch **restp, struct hvd_error *err);

/* Can a backend that takes memory of GPUs carry the batch as it is? Nothing is to be reduced or packed. */
bool staging_can_hand(const struct batch *batch);

/* FETCH: put the copies of all inputs into the GPU's queue, each behind what its tensor waits for. */
int staging_fetch(struct batch *batch, struct hvd_error *err);

/* Allgather, alltoall: results have got memory on the GPU; give them memory of the host. */
int staging_place_results(struct batch *batch, struct hvd_error *err);

/* STORE: put the copies of all results into the GPU's queue for them. From here on the tensors are on the GPU
 * again. */
int staging_store(struct batch *batch, struct hvd_error *err);

/* The same, without results: the batch is given up. */
void staging_return(struct batch *batch);

#endif
