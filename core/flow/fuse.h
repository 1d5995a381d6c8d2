/* fuse.h: pack agreed operations into batches. Pure. */
#ifndef FLOW_FUSE_H
#define FLOW_FUSE_H

#include "negotiate/desc.h"

/* One tensor of an operation. */
struct fuse_item {
    const struct desc *desc;
    int index; /* of the tensor in desc */
    int backend;
    int64_t bytes; /* as it travels */
    int batch;     /* out: the number of its batch */
    /* the plan's own: what later items may join, kept at the first item of its kind */
    int open_batch;
    int64_t open_bytes;
    int next_kind;
};

/* Put each of [items], which were decided together, into a batch, numbered from 0; returns how many batches
 * there are. Fused are tensors of equal kind, type, op, root, factors, wire, set and backend whose bytes stay
 * within [threshold_bytes] together; others may stand between them. One that alone reaches the threshold
 * stays alone, so that it is never copied just to be fused; so do those without bytes, alltoall and Adasum.
 * How a set's items are cut does not depend on the other sets' items: members see the same batches, whatever
 * else they are in. Batches are numbered by their first items. */
int fuse_plan(struct fuse_item *items, int item_count, int64_t threshold_bytes);

#endif
