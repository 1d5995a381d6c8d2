/* row_counts.h: how many rows the other members have, and memory for results whose size only that tells. */
#ifndef FLOW_ROW_COUNTS_H
#define FLOW_ROW_COUNTS_H

#include "flow/batch.h"

/* What travels next are the sizes of an allgather's or alltoall's batch. */
int row_counts_exchange(struct batch *batch, struct hvd_error *err);

/* They have come: believe them, or HVD_ERR_SYSTEM. *restp: where the tensors go beyond [threshold_bytes]
 * together, those behind are in a batch of their own from now on, whose turn is next; otherwise NULL. */
int row_counts_apply(struct batch *batch, int64_t threshold_bytes, struct batch **restp,
                     struct hvd_error *err);

/* Get the memory of its results, and tell their owners the rows. */
void row_counts_allocate(struct batch *batch);

#endif
