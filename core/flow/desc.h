/* desc.h: the description of an operation: what must be equal on all ranks. */
#ifndef FLOW_DESC_H
#define FLOW_DESC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hvd.h"

enum desc_kind { DESC_ALLREDUCE, DESC_BROADCAST, DESC_BARRIER, DESC_SHUTDOWN, DESC_KIND_COUNT };

/* Fields that a kind does not use are zero, so that equality is memberwise. */
struct desc {
    enum desc_kind kind;
    enum hvd_dtype dtype;
    enum hvd_op op; /* allreduce */
    int root;       /* broadcast */
    int ndim;
    int64_t shape[HVD_MAX_DIMS];
    uint32_t
        planes; /* bit 1 << enum plane_id: those that this rank has for it. Not compared: merged by AND */
    char name[HVD_MAX_NAME + 1];
};

/* Names of hvd's own operations. Users' names hold no control characters, so they never meet. */
#define DESC_BARRIER_NAME  "\001barrier"
#define DESC_SHUTDOWN_NAME "\001shutdown"

/* Everything equal but planes. */
bool desc_equal(const struct desc *a, const struct desc *b);

/* Elements, or -1 where the shape has a negative dimension or the tensor would have 2^63 bytes or more. */
int64_t desc_count(const struct desc *desc);

/* Where two ranks differ, as each of them would be told: texts such as "float32[64,128]" and
 * "float32[64,64]", or "broadcast" and "allreduce". [what] is the operation: `allreduce "layer3.weight"`, or
 * `"x"` where they differ in that. */
struct desc_difference {
    char what[HVD_MAX_NAME + 32];
    char a[160];
    char b[160];
};
void desc_compare(const struct desc *a, const struct desc *b, struct desc_difference *difference);

/* `allreduce "layer3.weight"`, `barrier`. */
void desc_title(const struct desc *desc, char *text, size_t text_bytes);

#endif
