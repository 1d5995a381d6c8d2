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
    HVD_ERR_UNSUPPORTED = -5, /* no backend that all ranks have can carry this */
    HVD_ERR_NO_MEMORY = -6,   /* memory or descriptors ran out */
    HVD_ERR_TIMEOUT = -7,     /* a rank did not arrive in time */
    HVD_ERR_RANK_LOST = -8,   /* a rank died or cannot be reached: save and leave */
    HVD_ERR_SHUTDOWN = -9,    /* a rank called hvd_shutdown while this was pending */
    HVD_ERR_SYSTEM = -10,     /* a system call or a library failed */
    HVD_ERR_SET = -11         /* no such process set, this rank is no member, or it was removed */
};

/* Elements. HVD_BOOL is one byte, 0 or 1; another value counts as 1. */
enum hvd_dtype {
    HVD_INT32 = 0,
    HVD_INT64 = 1,
    HVD_FLOAT32 = 2,
    HVD_FLOAT64 = 3,
    HVD_UINT8 = 4,
    HVD_INT8 = 5,
    HVD_UINT16 = 6,
    HVD_INT16 = 7,
    HVD_FLOAT16 = 8,  /* IEEE 754 binary16 */
    HVD_BFLOAT16 = 9, /* the upper half of a float32 */
    HVD_BOOL = 10
};

/* Reductions, elementwise and in the order of ranks. Integer sums and products wrap around. Half types are
 * accumulated as float32 and rounded once. On HVD_BOOL sum and max are or, min and product are and. */
enum hvd_op {
    HVD_SUM = 0,
    HVD_AVERAGE =
        1,       /* the sum divided by the number of ranks, integers truncated towards zero; not of bools */
    HVD_MIN = 2, /* a NaN on any rank gives NaN */
    HVD_MAX = 3,
    HVD_PRODUCT = 4,
    HVD_ADASUM = 5 /* allreduce of floating-point tensors on a power of two of ranks: pairs of vectors a, b
                      become (1 - a.b / 2a.a) a + (1 - a.b / 2b.b) b, neighbours first */
};

/* As what float32 travels, but for Adasum. Sums are still done in float32, but rounded to this at every hop.
 */
enum hvd_wire { HVD_WIRE_EXACT = 0, HVD_WIRE_FLOAT16 = 1, HVD_WIRE_BFLOAT16 = 2 };

#define HVD_MAX_DIMS  8
#define HVD_MAX_NAME  255   /* bytes of a name, without the final 0 */
#define HVD_MAX_GROUP 16384 /* tensors of one grouped operation */

/* A tensor in host memory, contiguous, the last dimension varying fastest. */
struct hvd_tensor {
    const char *name;  /* 1 to HVD_MAX_NAME bytes; the same on all ranks */
    const void *input; /* what is read; may be NULL where there are no elements */
    void *output;      /* what is written; may be [input], may not partly overlap it */
    enum hvd_dtype dtype;
    int ndim;                    /* 0 (a scalar) to HVD_MAX_DIMS */
    int64_t shape[HVD_MAX_DIMS]; /* elements in each dimension, >= 0 */
};

/* A process set: some ranks of the job, known on all of them by the same number. */
typedef int hvd_set;
#define HVD_ALL_RANKS 0 /* the set that always exists */

/* How an operation differs from the plain one. Begin with HVD_OPTIONS_INIT; NULL stands for that. Factors are
 * finite and not 0; what becomes of integers is truncated towards zero and limited to their type's range, and
 * bools stay as they are. */
struct hvd_options {
    hvd_set set;
    double prescale;  /* inputs are multiplied by it before they are reduced */
    double postscale; /* results are, afterwards */
    enum hvd_wire wire;
};
#define HVD_OPTIONS_INIT                        \
    {                                           \
        HVD_ALL_RANKS, 1.0, 1.0, HVD_WIRE_EXACT \
    }

/* A result whose size only the agreement tells. Zero it, or say where it shall go. Borrowed until the
 * operation is done. */
struct hvd_result {
    /* Gives the memory, called once before data moves unless there are no bytes; the library calls it from
     * any thread that drives it. NULL: malloc, and the caller frees [data]. */
    void *(*allocate)(int64_t bytes, void *arg);
    void *arg;
    int64_t *rows;     /* room for one number per member of the set: out: rows that came from it. Or NULL */
    void *data;        /* out: the rows of all members, in their order; NULL where there are none */
    int64_t row_count; /* out */
};

/* An operation in flight. 0 is never one. */
typedef uint64_t hvd_handle;

/* Called once when the operation is done, with its final status and the [arg] of its submission. */
typedef void (*hvd_done_f)(enum hvd_status status, void *arg);

/* ---- The job -------------------------------------------------------------------------------- */

/* Join the job that srun, hvdrun, mpirun, jsrun or the environment describes, and connect to its
 * other ranks. Collective: returns when all ranks have called it, at the latest after the option
 * start-timeout. May be called again, after hvd_shutdown or a failure, only in a job of one rank. On failure
 * nothing is left behind. May be called before or after the program's own MPI_Init. On several nodes it sets
 * variables for NCCL, UCX, Gloo and Open MPI, see hvd(7): no other thread may use the environment meanwhile.
 */
HVD_API enum hvd_status hvd_init(void);

/* Some ranks, in a list. */
struct hvd_ranks {
    const int *ranks;
    int count;
};

/* What hvd_init_with does beyond hvd_init. Zeroed, or NULL, it is hvd_init. */
struct hvd_start {
    struct hvd_ranks job; /* ranks of the launcher's job that make up ours, this process among them; its place
                             in the list is its rank. All processes of the launcher's job call, lists that
                             differ are different jobs. No list: all of them */
    const struct hvd_ranks *sets; /* process sets to begin with, by ranks of our job; numbered from 1 */
    int set_count;
};

/* hvd_init for a part of the launcher's job, or with process sets from the start. (hvd_mpi.h makes the lists
 * of MPI communicators.) */
HVD_API enum hvd_status hvd_init_with(const struct hvd_start *start);

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

/* Write up to [capacity] of the numbers that our ranks, in their order, have in the launcher's job: those of
 * hvd_start's list. Returns how many ranks there are, -1 when not initialised. */
HVD_API int hvd_launcher_ranks(int *ranks, int capacity);

/* ---- Process sets --------------------------------------------------------------------------- */

/* Make a process set of [count] distinct ranks, in any order. Collective over all ranks of the job, members
 * or not, with the same ranks everywhere (else HVD_ERR_MISMATCH); calls of several threads must come in the
 * same order on all ranks. Where those ranks are a set already: HVD_ERR_DUPLICATE, and *setp is that set. */
HVD_API enum hvd_status hvd_set_add(const int *ranks, int count, hvd_set *setp);

/* The set is no more. Collective over all ranks of the job. What its members still have pending in it
 * completes with HVD_ERR_SET. Its number is not used again. HVD_ALL_RANKS cannot be removed. */
HVD_API enum hvd_status hvd_set_remove(hvd_set set);

/* This rank's place among the set's members, which are ascending; -1 where it is none of them, where there is
 * no such set, or when not initialised. */
HVD_API int hvd_set_rank(hvd_set set);

/* How many members it has; -1 where there is no such set, or when not initialised. Any rank may ask. */
HVD_API int hvd_set_size(hvd_set set);

/* Write up to [capacity] of its members' ranks; returns how many there are, -1 as hvd_set_size. */
HVD_API int hvd_set_ranks(hvd_set set, int *ranks, int capacity);

/* Write up to [capacity] numbers of the sets that there are, HVD_ALL_RANKS first; returns how many, -1 when
 * not initialised. */
HVD_API int hvd_set_list(hvd_set *sets, int capacity);

/* ---- Operations ----------------------------------------------------------------------------- */

/* Every operation comes in two forms. The plain form waits and returns the final status. The _async
 * form returns HVD_OK once the operation is queued; then
 *   [done]     is called when it is done, unless NULL;
 *   [handlep]  receives a handle that must be given to hvd_wait once, unless NULL.
 * On any other status nothing was queued, [done] is not called and [handlep] is unchanged.
 *
 * Operations are collective over the members of [options]' set; of a rank that is no member: HVD_ERR_SET.
 *
 * A grouped operation is [count] tensors of one operation that are agreed on, run and done together: all or
 * none. An error in one of them is the status of the whole, on every rank. All ranks group them alike. */

/* Reduce [tensor] over the set; every member gets the result. Same name, dtype, shape, op and options on all
 * ranks, otherwise every rank gets HVD_ERR_MISMATCH (semantics of MPI_Allreduce, by name as Horovod). */
HVD_API enum hvd_status hvd_allreduce(const struct hvd_tensor *tensor, enum hvd_op op,
                                      const struct hvd_options *options);
HVD_API enum hvd_status hvd_allreduce_async(const struct hvd_tensor *tensor, enum hvd_op op,
                                            const struct hvd_options *options, hvd_done_f done, void *arg,
                                            hvd_handle *handlep);
HVD_API enum hvd_status hvd_grouped_allreduce(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                              const struct hvd_options *options);
HVD_API enum hvd_status hvd_grouped_allreduce_async(const struct hvd_tensor *tensors, int count,
                                                    enum hvd_op op, const struct hvd_options *options,
                                                    hvd_done_f done, void *arg, hvd_handle *handlep);

/* Copy [input] of rank [root] (a rank of the job, also inside a set) to [output] of every member (semantics
 * of MPI_Bcast; [root] also gets its own copy where output is not input). [input] is read on [root] only and
 * may be NULL elsewhere. Of [options] only the set may differ from the plain ones. */
HVD_API enum hvd_status hvd_broadcast(const struct hvd_tensor *tensor, int root,
                                      const struct hvd_options *options);
HVD_API enum hvd_status hvd_broadcast_async(const struct hvd_tensor *tensor, int root,
                                            const struct hvd_options *options, hvd_done_f done, void *arg,
                                            hvd_handle *handlep);

/* Put the members' tensors together along the first dimension, which may differ between them; every member
 * gets them all (semantics of MPI_Allgatherv). At least one dimension; the others are equal on all ranks.
 * [output] is NULL: the result goes where [result] says. Of [options] only the set may differ from the plain
 * ones. */
HVD_API enum hvd_status hvd_allgather(const struct hvd_tensor *tensor, struct hvd_result *result,
                                      const struct hvd_options *options);
HVD_API enum hvd_status hvd_allgather_async(const struct hvd_tensor *tensor, struct hvd_result *result,
                                            const struct hvd_options *options, hvd_done_f done, void *arg,
                                            hvd_handle *handlep);
HVD_API enum hvd_status hvd_grouped_allgather(const struct hvd_tensor *tensors, struct hvd_result *results,
                                              int count, const struct hvd_options *options);
HVD_API enum hvd_status hvd_grouped_allgather_async(const struct hvd_tensor *tensors,
                                                    struct hvd_result *results, int count,
                                                    const struct hvd_options *options, hvd_done_f done,
                                                    void *arg, hvd_handle *handlep);

/* Send the first splits[0] rows of [input] to the set's first member, the next splits[1] to its second, and
 * so on; receive from all (semantics of MPI_Alltoallv). [splits]: one number per member, whose sum is the
 * first dimension; copied. NULL: equal parts, and the number of members divides the first dimension.
 * result->rows are the received splits. Otherwise as hvd_allgather. */
HVD_API enum hvd_status hvd_alltoall(const struct hvd_tensor *tensor, const int64_t *splits,
                                     struct hvd_result *result, const struct hvd_options *options);
HVD_API enum hvd_status hvd_alltoall_async(const struct hvd_tensor *tensor, const int64_t *splits,
                                           struct hvd_result *result, const struct hvd_options *options,
                                           hvd_done_f done, void *arg, hvd_handle *handlep);

/* Reduce [tensor] over the set and leave member i with its share of the rows: the first (rows % members)
 * members have one more than the others, see hvd_share_rows (semantics of MPI_Reduce_scatter). [output] has
 * room for this rank's share. Not HVD_ADASUM. At least one dimension. */
HVD_API enum hvd_status hvd_reducescatter(const struct hvd_tensor *tensor, enum hvd_op op,
                                          const struct hvd_options *options);
HVD_API enum hvd_status hvd_reducescatter_async(const struct hvd_tensor *tensor, enum hvd_op op,
                                                const struct hvd_options *options, hvd_done_f done, void *arg,
                                                hvd_handle *handlep);
HVD_API enum hvd_status hvd_grouped_reducescatter(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                                  const struct hvd_options *options);
HVD_API enum hvd_status hvd_grouped_reducescatter_async(const struct hvd_tensor *tensors, int count,
                                                        enum hvd_op op, const struct hvd_options *options,
                                                        hvd_done_f done, void *arg, hvd_handle *handlep);

/* This rank has no more data (semantics of Horovod's join). Until all members have joined it takes part in
 * their allreduces of sum, average and Adasum with zeros and in their barriers; their other operations end
 * with HVD_ERR_MISMATCH on all ranks. Done when all have joined; *last_rankp (unless NULL; borrowed until
 * then) is the rank of the job that joined last. One join is in flight at a time in a set. */
HVD_API enum hvd_status hvd_join(hvd_set set, int *last_rankp);
HVD_API enum hvd_status hvd_join_async(hvd_set set, int *last_rankp, hvd_done_f done, void *arg,
                                       hvd_handle *handlep);

/* Done when every member has submitted it (semantics of MPI_Barrier). One barrier is in flight at a time in a
 * set. */
HVD_API enum hvd_status hvd_barrier(hvd_set set);
HVD_API enum hvd_status hvd_barrier_async(hvd_set set, hvd_done_f done, void *arg, hvd_handle *handlep);

/* How far is it: HVD_IN_PROGRESS, or the final status. Never waits; the handle stays valid. */
HVD_API enum hvd_status hvd_test(hvd_handle handle);

/* Wait until it is done, return its final status and give the handle back. While it waits this thread may
 * do hvd's work, other operations' callbacks included. A handle that is not in flight: HVD_ERR_INVALID. */
HVD_API enum hvd_status hvd_wait(hvd_handle handle);

/* ---- Memory --------------------------------------------------------------------------------- */

/* Memory of [bytes] for tensors, zeroed, on pages of its own, in *memoryp; NULL for 0 bytes. The other ranks
 * of this node reach it too: an allreduce between ranks of one node whose inputs and outputs are all in such
 * memory is done where they lie, without a copy. Anywhere else it is memory as any other: tensors may be
 * there or not, on each rank as it likes, and results have the same bits. (In purpose MPI_Alloc_mem and
 * ncclMemAlloc.) Any number of tensors may share one piece. It can be used until it is given back, also after
 * hvd_shutdown; but until that has returned, the other ranks may still write into outputs of operations that
 * failed. A child that was forked has the same memory as its parent, not a copy. HVD_ERR_STATE before
 * hvd_init. */
HVD_API enum hvd_status hvd_alloc(int64_t bytes, void **memoryp);

/* Give back what hvd_alloc gave; no operation that uses it may be in flight. NULL is fine; another pointer,
 * or the same twice, is HVD_ERR_INVALID. May be called after hvd_shutdown. */
HVD_API enum hvd_status hvd_free(void *memory);

/* ---- Stopping, seeing ----------------------------------------------------------------------- */

/* Ask the job to stop: the next hvd_should_stop of all ranks says so. Callable from signal handlers and any
 * thread, also before hvd_init. */
HVD_API void hvd_request_stop(void);

/* Shall the program stop? Collective over all ranks: *stopp is 1 on all of them where any has called
 * hvd_request_stop or received the signal of the option stop-signal, else 0 on all. */
HVD_API enum hvd_status hvd_should_stop(int *stopp);

/* Write a timeline of this rank into [folder] from now on, as the option timeline does, until
 * hvd_timeline_stop. Local; HVD_ERR_STATE where one is being written (start), where none is (stop). */
HVD_API enum hvd_status hvd_timeline_start(const char *folder);
HVD_API enum hvd_status hvd_timeline_stop(void);

/* ---- Words ---------------------------------------------------------------------------------- */

/* A tensor of one dimension, reduced or broadcast in place. */
static inline struct hvd_tensor hvd_vector(const char *name, void *data, int64_t count, enum hvd_dtype dtype)
{
    struct hvd_tensor tensor = {name, data, data, dtype, 1, {count}};
    return tensor;
}

/* Rows of a reducescatter that member [member] of [size] gets, of [rows]. */
static inline int64_t hvd_share_rows(int64_t rows, int member, int size)
{
    return rows / size + (member < rows % size);
}

/* The sentence of the last error that a call gave this thread; "" where there was none. Valid until this
 * thread's next call of hvd. */
HVD_API const char *hvd_error_text(void);

/* Make [sentence], which is copied, what hvd_error_text says to this thread, and return [status]: for what is
 * built on hvd and fails as it does. */
HVD_API enum hvd_status hvd_error_set(enum hvd_status status, const char *sentence);

/* What a status means, in a few words. Never NULL. */
HVD_API const char *hvd_status_text(enum hvd_status status);

/* "0.1.0" */
HVD_API const char *hvd_version(void);

#ifdef __cplusplus
}
#endif
#endif
