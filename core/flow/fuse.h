/* fuse.h: pack agreed operations into batches. Pure. */
#ifndef FLOW_FUSE_H
#define FLOW_FUSE_H

#include "flow/desc.h"

struct fuse_item {
    const struct desc *desc;
    int plane;
    int64_t bytes;
};

/* Put each of [items], which were decided together, into a batch: batch_of_item[i] is its number, 0 for the
 * first; returns how many batches there are. Fused are operations of equal kind, type, op, root and plane
 * whose bytes stay within [threshold_bytes] together; others may stand between them. One that alone reaches
 * the threshold stays alone, so that it is never copied just to be fused; so do those without bytes. The same
 * items give the same batches on every rank. */
int fuse_plan(const struct fuse_item *items, int item_count, int64_t threshold_bytes, int *batch_of_item);

#endif
