/* hvd.h: data-parallel collectives between the ranks of a job.
 *
 * Threads.    Every call may be made from any thread at any time after hvd_init has returned, except
 *             hvd_init and hvd_shutdown themselves, which one thread calls. A callback may run on any
 *             thread that is inside hvd_wait, and on hvd's own; it may submit operations, but may not
 *             wait, initialise or shut down.
 * Ownership.  Tensors are borrowed: from submission until the operation is done (its callback has
 *             returned, or hvd_test or hvd_wait has said so) hvd may read [input] and write [output], and the
 *             caller may do neither. Names and shapes are copied.
 * Order.      Ranks may submit operations in any order: an operation is known by its name, and starts
 *             when every rank has submitted it. Results have identical bits on all ranks.
 * Errors.     Calls return enum hvd_status. hvd_error_text() is the sentence that belongs to the
 *             last error this thread was given.
 */
#ifndef HVD_H
#define HVD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HVD_API __attribute__((visibility("default")))
#else
#define HVD_API
#endif

/* One value for each different thing that a caller would do. Good is 0, unfinished is positive. */
enum hvd_status {
    HVD_OK = 0,
    HVD_IN_PROGRESS = 1,      /* not done yet: call again, or wait */
    HVD_ERR_INVALID = -1,     /* an argument, an option or the environment is wrong: mend it */
    HVD_ERR_STATE = -2,       /* not now: before hvd_init, after hvd_shutdown, inside a callback */
    HVD_ERR_DUPLICATE = -3,   /* an operation of that name is still in flight on this rank */
    HVD_ERR_MISMATCH = -4,    /* the ranks disagree on this operation or on the job */
    HVD_ERR_UNSUPPORTED = -5, /* no plane that all ranks have can carry this */
    HVD_ERR_NO_MEMORY = -6,   /* memory or descriptors ran out */
    HVD_ERR_TIMEOUT = -7,     /* a rank did not arrive in time */
    HVD_ERR_RANK_LOST = -8,   /* a rank died or cannot be reached: save and leave */
    HVD_ERR_SHUTDOWN = -9,    /* a rank called hvd_shutdown while this was pending */
    HVD_ERR_SYSTEM = -10      /* a system call or a library failed */
};

enum hvd_dtype { HVD_INT32 = 0, HVD_INT64 = 1, HVD_FLOAT32 = 2, HVD_FLOAT64 = 3 };

/* Reductions, elementwise and in the order of ranks. HVD_AVERAGE is the sum divided by the number
 * of ranks; on integers the quotient is truncated towards zero. Integer sums wrap around. */
enum hvd_op { HVD_SUM = 0, HVD_AVERAGE = 1 };

#define HVD_MAX_DIMS 8
#define HVD_MAX_NAME 255 /* bytes of a name, without the final 0 */

/* A tensor in host memory, contiguous, the last dimension varying fastest. */
struct hvd_tensor {
    const char *name;  /* 1 to HVD_MAX_NAME bytes; the same on all ranks */
    const void *input; /* what is read; may be NULL where there are no elements */
    void *output;      /* what is written; may be [input], may not partly overlap it */
    enum hvd_dtype dtype;
    int ndim;                    /* 0 (a scalar) to HVD_MAX_DIMS */
    int64_t shape[HVD_MAX_DIMS]; /* elements in each dimension, >= 0 */
};

/* An operation in flight. 0 is never one. */
typedef uint64_t hvd_handle;

/* Called once when the operation is done, with its final status and the [arg] of its submission. */
typedef void (*hvd_done_f)(enum hvd_status status, void *arg);

/* ---- The job -------------------------------------------------------------------------------- */

/* Join the job that srun, hvdrun, mpirun, jsrun or the environment describes, and connect to its
 * other ranks. Collective: returns when all ranks have called it, at the latest after the option
 * start-timeout. May be called again after hvd_shutdown only in a job of one rank. On failure nothing
 * is left behind. May be called before or after the program's own MPI_Init. */
HVD_API enum hvd_status hvd_init(void);

/* Leave the job. Collective: waits for the other ranks to call it. What this or another rank still has
 * pending then completes with HVD_ERR_SHUTDOWN. HVD_OK when not initialised. */
HVD_API enum hvd_status hvd_shutdown(void);

/* 1 between a successful hvd_init and hvd_shutdown, else 0. */
HVD_API int hvd_is_initialized(void);

/* Who am I: -1 when not initialised. local_* count the ranks of this node, node_* the nodes. */
HVD_API int hvd_rank(void);
HVD_API int hvd_size(void);
HVD_API int hvd_local_rank(void);
HVD_API int hvd_local_size(void);
HVD_API int hvd_node_rank(void);
HVD_API int hvd_node_count(void);

/* ---- Operations ----------------------------------------------------------------------------- */

/* Every operation comes in two forms. The plain form waits and returns the final status. The _async
 * form returns HVD_OK once the operation is queued; then
 *   [done]     is called when it is done, unless NULL;
 *   [handlep]  receives a handle that must be given to hvd_wait once, unless NULL.
 * On any other status nothing was queued, [done] is not called and [handlep] is unchanged. */

/* Reduce [tensor] over all ranks; every rank gets the result. Same name, dtype, shape and op on all
 * ranks, otherwise every rank gets HVD_ERR_MISMATCH (semantics of MPI_Allreduce, by name as Horovod). */
HVD_API enum hvd_status hvd_allreduce(const struct hvd_tensor *tensor, enum hvd_op op);
HVD_API enum hvd_status hvd_allreduce_async(const struct hvd_tensor *tensor, enum hvd_op op, hvd_done_f done,
                                            void *arg, hvd_handle *handlep);

/* Copy [input] of rank [root] to [output] of every rank (semantics of MPI_Bcast; [root] also gets its own
 * copy where output is not input). [input] is read on [root] only and may be NULL elsewhere. */
HVD_API enum hvd_status hvd_broadcast(const struct hvd_tensor *tensor, int root);
HVD_API enum hvd_status hvd_broadcast_async(const struct hvd_tensor *tensor, int root, hvd_done_f done,
                                            void *arg, hvd_handle *handlep);

/* Done when every rank has submitted it (semantics of MPI_Barrier). One barrier is in flight at a time. */
HVD_API enum hvd_status hvd_barrier(void);
HVD_API enum hvd_status hvd_barrier_async(hvd_done_f done, void *arg, hvd_handle *handlep);

/* How far is it: HVD_IN_PROGRESS, or the final status. Never waits; the handle stays valid. */
HVD_API enum hvd_status hvd_test(hvd_handle handle);

/* Wait until it is done, return its final status and give the handle back. While it waits this thread may
 * do hvd's work, other operations' callbacks included. A handle that is not in flight: HVD_ERR_INVALID. */
HVD_API enum hvd_status hvd_wait(hvd_handle handle);

/* ---- Words ---------------------------------------------------------------------------------- */

/* A tensor of one dimension, reduced or broadcast in place. */
static inline struct hvd_tensor hvd_vector(const char *name, void *data, int64_t count, enum hvd_dtype dtype)
{
    struct hvd_tensor tensor = {name, data, data, dtype, 1, {count}};
    return tensor;
}

/* The sentence of the last error that a call gave this thread; "" where there was none. Valid until this
 * thread's next call of hvd. */
HVD_API const char *hvd_error_text(void);

/* What a status means, in a few words. Never NULL. */
HVD_API const char *hvd_status_text(enum hvd_status status);

/* "0.1.0" */
HVD_API const char *hvd_version(void);

#ifdef __cplusplus
}
#endif
#endif
