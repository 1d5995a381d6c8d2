/* desc.h: the description of an operation: what must be equal on all ranks. */
#ifndef NEGOTIATE_DESC_H
#define NEGOTIATE_DESC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hvd.h"

enum desc_kind {
    DESC_ALLREDUCE,
    DESC_BROADCAST,
    DESC_ALLGATHER,
    DESC_ALLTOALL,
    DESC_REDUCESCATTER,
    DESC_BARRIER,
    DESC_JOIN,
    DESC_SET_ADD,    /* in HVD_ALL_RANKS, as the following two */
    DESC_SET_REMOVE, /* root: the set */
    DESC_SHUTDOWN,
    DESC_KIND_COUNT
};

/* One tensor of it. SET_ADD: the name is the list of ranks as a reader would write it ("0-3,8"), cut where it
 * is too long; shape[0] how many, shape[1] a hash of all of them. */
struct desc_tensor {
    enum hvd_dtype dtype;
    int ndim;
    int64_t shape[HVD_MAX_DIMS]; /* dimension 0 of allgather and alltoall is 0: it may differ between ranks */
    char name[HVD_MAX_NAME + 1];
};

/* Immutable once made, and shared: whoever keeps one holds a use. Fields that a kind does not use are zero
 * (factors 1), so that equality is memberwise. An operation is known in its set by its first tensor's name;
 * those of hvd itself by DESC_*_NAME. */
struct desc {
    _Atomic int refcount;
    enum desc_kind kind;
    hvd_set set;
    enum hvd_op op;             /* allreduce, reducescatter */
    enum hvd_wire wire;         /* the same */
    double prescale, postscale; /* the same */
    int root;                   /* broadcast: a rank of the job; SET_REMOVE: the set */
    bool grouped;               /* submitted by a grouped call, also where that had one tensor */
    int tensor_count;           /* 1 to HVD_MAX_GROUP */
    struct desc_tensor tensors[];
};

/* Names of hvd's own operations. Users' names hold no control characters, so they never meet. */
#define DESC_BARRIER_NAME    "\001barrier"
#define DESC_JOIN_NAME       "\001join"
#define DESC_SET_ADD_NAME    "\001set add"
#define DESC_SET_REMOVE_NAME "\001set remove"
#define DESC_SHUTDOWN_NAME   "\001shutdown"
#define DESC_CLOCK_NAME      "\001clock" /* of the comparison of clocks, a broadcast */
#define DESC_STOP_NAME       "\001stop"  /* of hvd_should_stop, an allreduce */

/* Zeroed, with factors of 1 and one use; NULL where memory is out. */
struct desc *desc_create(int tensor_count);
struct desc *desc_hold(const struct desc *desc); /* one more use */
void desc_release(const struct desc *desc);      /* one less; NULL is fine */

/* The name that it is known by: that of tensors[0], or of hvd's own operation for SET_ADD. */
const char *desc_name(const struct desc *desc);

/* "allreduce", for ever. */
const char *desc_kind_name(enum desc_kind kind);

/* Everything equal. Factors by their bits. */
bool desc_equal(const struct desc *a, const struct desc *b);

/* Elements of a tensor of these dimensions, or -1 where one is negative or it would have 2^63 bytes or more.
 */
int64_t desc_elements(enum hvd_dtype dtype, const int64_t *shape, int ndim);
int64_t desc_count(const struct desc_tensor *tensor); /* the same */

/* Can ranks that have joined take part with zeros (or, in a barrier, by being there)? */
bool desc_allows_joined(const struct desc *desc);

#define DESC_TITLE_BYTES (HVD_MAX_NAME + 80)

/* Where two ranks differ, as each of them would be told: texts such as "float32[64,128]" and
 * "float32[64,64]", or "broadcast" and "allreduce", or "a group of 3 tensors" and "a group of 2 tensors".
 * [what] is the operation: `allreduce "layer3.weight"`, or `"x"` where they differ in that. */
struct desc_difference {
    char what[DESC_TITLE_BYTES];
    char a[HVD_MAX_NAME + 160];
    char b[HVD_MAX_NAME + 160];
};

/* False where they are equal: then only [what] is written. */
bool desc_compare(const struct desc *a, const struct desc *b, struct desc_difference *difference);

/* The ranks agree on [desc], but no backend is on both lists (bits 1 << enum backend_id): "backends tcp mpi".
 */
void desc_compare_backends(const struct desc *desc, uint32_t a, uint32_t b,
                           struct desc_difference *difference);

/* `allreduce "layer3.weight"`, `barrier`, `grouped allgather "a" and 2 more`, with ` in process set 3` behind
 * it where that is not HVD_ALL_RANKS. */
void desc_title(const struct desc *desc, char *text, size_t text_bytes);

#endif
