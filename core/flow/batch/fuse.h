/* fuse.h: which of the tensors that were decided together share a batch. Pure. */
#ifndef FLOW_BATCH_FUSE_H
#define FLOW_BATCH_FUSE_H

#include "negotiate/desc.h"

/* One tensor of an operation. */
struct fuse_item {
    const struct desc *desc;
    int index; /* of the tensor in desc */
    int backend;
    bool nccl;     /* instead of it, for tensors on GPUs */
    int64_t bytes; /* as transferred */
    int batch;     /* out: the number of its batch */
    /* fuse_plan's own: the batch that later items may join, kept at the first item of its kind */
    int open_batch;
    int64_t open_bytes;
    int next_kind;
};

/* Put each of [items], which were decided together, into a batch. Batches are numbered from 0, in the order
 * of their first items; returns how many there are. Tensors share a batch where kind, type, memory, op, root,
 * factors, wire, set and backend are equal and their bytes do not exceed [threshold_bytes] together; they
 * need not be neighbours. A tensor that reaches the threshold by itself stays alone, because it would be
 * copied for nothing. So do tensors without bytes, alltoall and Adasum. The batches of a set do not depend on
 * items of other sets: all members of a set cut the same batches, whatever other sets each of them is in. */
int fuse_plan(struct fuse_item *items, int item_count, int64_t threshold_bytes);

#endif
