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
    DESC_REDUCE,
    DESC_GATHER,
    DESC_SCATTER,
    DESC_NAMED_COUNT, /* those before it have the names that the program gives to tensors */
    DESC_BARRIER = DESC_NAMED_COUNT,
    DESC_JOIN,
    DESC_SET_ADD,    /* in HVD_ALL_RANKS, like the following two */
    DESC_SET_REMOVE, /* root: the set; in that set itself where its members alone made it */
    DESC_SHUTDOWN,
    DESC_AGREED_COUNT, /* what the ranks agree on ends here; the rest concerns two ranks */
    DESC_SEND = DESC_AGREED_COUNT,
    DESC_RECV,
    DESC_EXCHANGE, /* a group of these two */
    DESC_KIND_COUNT
};

static inline bool desc_is_message(enum desc_kind kind)
{
    return kind >= DESC_SEND;
}

static inline bool desc_reduces(enum desc_kind kind)
{
    return kind == DESC_ALLREDUCE || kind == DESC_REDUCESCATTER || kind == DESC_REDUCE;
}

static inline bool desc_has_root(enum desc_kind kind)
{
    return kind == DESC_BROADCAST || kind == DESC_REDUCE || kind == DESC_GATHER || kind == DESC_SCATTER;
}

/* Is it an alltoall, perhaps one in which only the root receives, or sends? */
static inline bool desc_is_alltoall(enum desc_kind kind)
{
    return kind == DESC_ALLTOALL || kind == DESC_GATHER || kind == DESC_SCATTER;
}

/* May members have different numbers of rows, which they tell each other before results get their memory? */
static inline bool desc_is_sized_later(enum desc_kind kind)
{
    return kind == DESC_ALLGATHER || desc_is_alltoall(kind);
}

/* One tensor of an operation. Messages: the name says the other end. SET_ADD: the name is the list of ranks
 * as a user would write it ("0-3,8"), cut if it is too long; shape[0] is the number of ranks, shape[1] a hash
 * of all of them. With by_members the name begins with \001, and two lists never have the same one. */
struct desc_tensor {
    enum hvd_dtype dtype;
    bool on_device; /* in the memory of a GPU, whichever that is on each rank */
    int ndim;
    int64_t shape[HVD_MAX_DIMS]; /* dimension 0 is 0 where it is sized later: it may differ between ranks */
    char name[HVD_MAX_NAME + 1];
};

/* A description is immutable once it is made, and shared by reference counting. Fields that a kind does
 * not use are zero (factors 1), so that equality is memberwise. Within its process set an operation is
 * identified by the name of its first tensor; hvd's own operations are identified by DESC_*_NAME. */
struct desc {
    _Atomic int refcount;
    enum desc_kind kind;
    hvd_set set;
    enum hvd_op op;             /* reductions */
    enum hvd_wire wire;         /* the same */
    double prescale, postscale; /* the same */
    int root;                   /* if it has one: a rank of the job; SET_REMOVE: the set */
    uint64_t splits;            /* reducescatter: a hash of the rows of each member; 0: the usual shares */
    bool grouped;               /* submitted by a grouped call, even if that had one tensor */
    bool persistent;            /* ALLREDUCE to REDUCESCATTER: agreed on once, and started later */
    bool by_members;            /* SET_ADD: only the new set's members submit it */
    int tensor_count;           /* 1 to HVD_MAX_GROUP */
    struct desc_tensor tensors[];
};

/* Names of hvd's own operations. Users' names hold no control characters, so the two never clash. */
#define DESC_BARRIER_NAME    "\001barrier"
#define DESC_JOIN_NAME       "\001join"
#define DESC_SET_ADD_NAME    "\001set add"
#define DESC_SET_REMOVE_NAME "\001set remove"
#define DESC_SHUTDOWN_NAME   "\001shutdown"
#define DESC_CLOCK_NAME      "\001clock" /* the comparison of clocks, a broadcast */
#define DESC_STOP_NAME       "\001stop"  /* hvd_should_stop, an allreduce */

/* A zeroed description, with factors of 1 and one reference; NULL if memory is out. */
struct desc *desc_create(int tensor_count);
struct desc *desc_hold(const struct desc *desc); /* adds a reference */
void desc_release(const struct desc *desc);      /* drops a reference; NULL is fine */

/* The name that identifies the operation: that of tensors[0], or the name of hvd's own operation for a
 * SET_ADD of all ranks. */
const char *desc_name(const struct desc *desc);

/* A constant such as "allreduce". */
const char *desc_kind_name(enum desc_kind kind);

/* Are all its tensors on GPUs? */
bool desc_is_on_device(const struct desc *desc);

/* Are all fields equal? Factors are compared by their bits. */
bool desc_equal(const struct desc *a, const struct desc *b);

/* The number of elements of a tensor with these dimensions, or -1 if one is negative or the tensor would
 * have more than BYTES_MAX bytes. */
int64_t desc_elements(enum hvd_dtype dtype, const int64_t *shape, int ndim);
int64_t desc_count(const struct desc_tensor *tensor); /* the same */

/* Can ranks that have joined take part with zeros, or, in a barrier, just by taking part? */
bool desc_allows_joined(const struct desc *desc);

#define DESC_TITLE_BYTES (HVD_MAX_NAME + 80)

/* How two ranks differ, with a text for each of them: such as "float32[64,128]" and "float32[64,64]", or
 * "broadcast" and "allreduce", or "a group of 3 tensors" and "a group of 2 tensors". [what] is the
 * operation: `allreduce "layer3.weight"`, or `"x"` if they differ in the operation itself. */
struct desc_difference {
    char what[DESC_TITLE_BYTES];
    char a[HVD_MAX_NAME + 160];
    char b[HVD_MAX_NAME + 160];
};

/* Compare two descriptions. False if they are equal: then only [what] is written. */
bool desc_compare(const struct desc *a, const struct desc *b, struct desc_difference *difference);

/* The ranks agree on [desc], but have no backend in common (bits 1 << enum backend_id). Writes texts such
 * as "backends tcp mpi". */
void desc_compare_backends(const struct desc *desc, uint32_t a, uint32_t b,
                           struct desc_difference *difference);

/* Write `allreduce "layer3.weight"`, `barrier`, `send to rank 1 with tag 5`, `grouped allgather "a" and 2
 * more`, or `persistent allreduce "a"`, followed by ` in process set 3` if the set is not HVD_ALL_RANKS. */
void desc_title(const struct desc *desc, char *text, size_t text_bytes);

#endif
