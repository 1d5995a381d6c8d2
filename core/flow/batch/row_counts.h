/* row_counts.h: members of an allgather or alltoall tell each other how many rows they have; then results can
 * be allocated. */
#ifndef FLOW_BATCH_ROW_COUNTS_H
#define FLOW_BATCH_ROW_COUNTS_H

#include "flow/batch/batch.h"

/* Make the row counts the next transfer of the batch. */
int row_counts_exchange(struct batch *batch, struct hvd_error *err);

/* The row counts were received: check and apply them; HVD_ERR_SYSTEM where they cannot be true. Tensors that
 * exceed [threshold_bytes] together with those before them move to a batch of their own, *restp, which runs
 * next; otherwise *restp is NULL. */
int row_counts_apply(struct batch *batch, int64_t threshold_bytes, struct batch **restp,
                     struct hvd_error *err);

/* Allocate the results of the batch, and write the row counts into those that ask for them. */
void row_counts_allocate(struct batch *batch);

#endif
