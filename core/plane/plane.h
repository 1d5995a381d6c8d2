/* plane.h: how tensors travel. */
#ifndef PLANE_PLANE_H
#define PLANE_PLANE_H

#include "base/config.h"
#include "base/log.h"
#include "base/planes.h"
#include "control/endpoint.h"
#include "control/shape.h"

/* What a batch does. Barriers need no plane: that all ranks agreed is the barrier. */
enum plane_kind { PLANE_ALLREDUCE, PLANE_BROADCAST };

/* What decides whether a plane can carry something. Equal on all ranks. */
struct plane_need {
    enum plane_kind kind;
    enum hvd_dtype dtype;
    enum hvd_op op; /* allreduce */
};

/* One batch: the same on all ranks but for the memory. */
struct plane_batch {
    struct plane_need need;
    int root;          /* broadcast */
    uint64_t sequence; /* counts the batches of the job from 1; all ranks start them in this order */
    const void *input; /* may be output; otherwise they do not overlap. Broadcast: read on root only */
    void *output;
    int64_t count; /* elements, > 0 */
};

/* What a plane is opened with; lives longer than it. */
struct plane_env {
    const struct hvd_config *config;
    const struct hvd_log *log;
    const struct hvd_job *job;
    const struct roster *roster;
    const struct shape *shape;
    struct endpoint *endpoint;
    int epoll_fd; /* a plane adds what wakes a sleeper: edge-triggered, data is not looked at. -1: none wanted
                   */
};

/* Calls come from the holder of the baton, one at a time (threads change). All calls are mandatory. */
struct plane_ops {
    enum plane_id id;
    /* Whether this process could open it, without side effects. Otherwise a phrase for "plane mpi: ...". */
    bool (*available)(const struct plane_env *env, const char **whyp);
    /* Called before the first batch that is agreed to go here, by all ranks at that batch, or at hvd_init
     * where opens_early says so. May block, until [deadline_us]. */
    int (*open)(const struct plane_env *env, int64_t deadline_us, void **statep, struct hvd_error *err);
    bool opens_early;
    /* No descriptor says when it can go on: while a batch runs, test is called again and again. */
    bool polled;
    /* May this plane carry it? No side effects; after a yes start fails only for what happens at run time. */
    bool (*can)(const struct plane_need *need);
    /* Begin a batch. Must not block. One batch runs at a time in each plane. */
    int (*start)(void *state, const struct plane_batch *batch, struct hvd_error *err);
    /* Carry on with it for at most about 100 us: HVD_IN_PROGRESS, or HVD_OK when the output is complete and
     * nothing is still read from input, or an error: HVD_ERR_RANK_LOST with *rankp the rank that is gone.
     * *movedp: something was done. */
    int (*test)(void *state, bool *movedp, int *rankp, struct hvd_error *err);
    /* In a forked child: close descriptors, touch nothing else. */
    void (*after_fork)(void *state);
    /* Free everything. A running batch is given up: from here on its memory is not touched. */
    void (*close)(void *state);
};

/* Bytes of one element. */
size_t dtype_bytes(enum hvd_dtype dtype);
const char *dtype_name(enum hvd_dtype dtype); /* "float32"; NULL for a number that is none */
const char *op_name(enum hvd_op op);          /* "sum"; NULL for a number that is none */

/* out[i] = left[i] + right[i], integers wrapping around. [out] may be one of the operands; otherwise it
 * overlaps neither. These are the element-wise kernels that planes share. */
void reduce_add(enum hvd_dtype dtype, void *out, const void *left, const void *right, int64_t count);
/* data[i] = data[i] / divisor, integers truncated towards zero. */
void reduce_divide(enum hvd_dtype dtype, void *data, int64_t count, int divisor);

extern const struct plane_ops plane_local; /* one rank: output = input; the contract in readable form */
extern const struct plane_ops plane_tcp;   /* a chunked pipeline along the ring of ranks, over sockets */
extern const struct plane_ops plane_mpi;   /* stands for the module plane_mpi.so, opened at run time */

/* By enum plane_id. */
extern const struct plane_ops *const plane_table[PLANE_COUNT];

#endif
