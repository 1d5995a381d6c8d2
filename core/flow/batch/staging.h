/* staging.h: tensors on the GPU that a backend of host memory carries: they are copied into pinned memory of
 * the host before their batch is laid out, and their results back after it. In between the batch takes that
 * memory for the tensors. */
#ifndef FLOW_BATCH_STAGING_H
#define FLOW_BATCH_STAGING_H

#include "flow/batch/batch.h"

/* FETCH: put the copies of all inputs into the GPU's queue, each behind what its tensor waits for. */
int staging_fetch(struct batch *batch, struct hvd_error *err);

/* Allgather, alltoall: results have got memory on the GPU; give them memory of the host. */
int staging_place_results(struct batch *batch, struct hvd_error *err);

/* STORE: put the copies of all results into the GPU's queue. From here on the tensors are
 * on the GPU again. */
int staging_store(struct batch *batch, struct hvd_error *err);

/* The same, without results: the batch is given up. */
void staging_return(struct batch *batch);

#endif
