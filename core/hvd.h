/* hvd.h: data-parallel collectives, and messages, between the ranks of a job.
 *
 * Threads.    Any thread may make any call once hvd_init has returned. Only hvd_init and hvd_shutdown
 *             differ: one thread calls them while no other thread is in a call. A callback runs on a
 *             thread inside hvd_wait, or on one of hvd's threads. It may submit operations, but must not
 *             wait, initialise or shut down.
 * Ownership.  Do not touch a tensor's elements from submission until the operation is done: until then hvd
 *             may read [input] and write [output] at any time. An operation is done when its callback has
 *             returned, or when hvd_test or hvd_wait has returned its final status. Names and shapes are
 *             copied at submission.
 * Order.      Ranks may submit operations in any order: an operation is known by its name, and starts
 *             when every rank has submitted it. Results have identical bits on all ranks.
 * Errors.     Calls return enum hvd_status. hvd_error_text() returns the sentence that explains the last
 *             error on the calling thread.
 */
#ifndef HVD_H
#define HVD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HVD_API __attribute__((visibility("default")))
#else
#define HVD_API
#endif

/* One value for each different reaction of a caller. 0 is success, positive is not done yet or not the end,
 * negative is an error. */
enum hvd_status {
    HVD_OK = 0,
    HVD_IN_PROGRESS = 1,      /* not done yet: call again, or wait */
    HVD_NEW_RANKS = 2,        /* ranks wait to join the job, or are to leave it: return it from the function
                                 that hvd_elastic_run calls */
    HVD_ERR_INVALID = -1,     /* an argument, an option or the environment is wrong: correct it */
    HVD_ERR_STATE = -2,       /* not allowed now: before hvd_init, after hvd_shutdown, inside a callback */
    HVD_ERR_DUPLICATE = -3,   /* an operation of that name is in flight here, or a set or part exists */
    HVD_ERR_MISMATCH = -4,    /* the ranks disagree on this operation or on the job */
    HVD_ERR_UNSUPPORTED = -5, /* no backend that all ranks have can run this */
    HVD_ERR_NO_MEMORY = -6,   /* memory or descriptors ran out */
    HVD_ERR_TIMEOUT = -7,     /* a rank did not arrive in time */
    HVD_ERR_RANK_LOST = -8,   /* a rank died or cannot be reached: save your work and exit */
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
    HVD_BOOL = 10,
    HVD_FLOAT8_E4M3 = 11, /* of the Open Compute Project: no infinity, at most 448; torch's float8_e4m3fn */
    HVD_FLOAT8_E5M2 = 12  /* the upper half of a float16; torch's float8_e5m2 */
};

/* Reductions, elementwise and in the order of ranks; on GPUs in the order of the library that runs them.
 * Integer sums and products wrap around. Types of 8 and 16 bits with a fraction are accumulated as float32
 * and rounded once; a float8 that would be too large, or infinite, becomes the largest finite one. For
 * HVD_BOOL, sum and max are "or", min and product are "and". HVD_BAND, HVD_BOR and HVD_BXOR are bitwise, as
 * MPI's, for integers and bools, and take no factors. HVD_ADASUM is only for allreduce of floating-point
 * tensors in a set whose size is a power of two: pairs of vectors a, b become
 * (1 - a.b / 2a.a) a + (1 - a.b / 2b.b) b, neighbours first. */
enum hvd_op {
    HVD_SUM = 0,
    HVD_AVERAGE = 1, /* the sum divided by the number of ranks; integers are truncated towards zero; not for
                        bools */
    HVD_MIN = 2,     /* a NaN on any rank gives NaN, on GPUs a NaN or the least of the others */
    HVD_MAX = 3,
    HVD_PRODUCT = 4,
    HVD_ADASUM = 5,
    HVD_BAND = 6,
    HVD_BOR = 7,
    HVD_BXOR = 8
};

/* The type in which float32 elements travel between ranks; not for Adasum. Sums are still computed in
 * float32, and rounded to this type at every hop. */
enum hvd_wire { HVD_WIRE_EXACT = 0, HVD_WIRE_FLOAT16 = 1, HVD_WIRE_BFLOAT16 = 2 };

#define HVD_MAX_DIMS  8
#define HVD_MAX_NAME  255   /* bytes of a name, without the final 0 */
#define HVD_MAX_GROUP 16384 /* tensors of one grouped operation */

/* The memory of a tensor. ANY: hvd asks CUDA's driver, if this process has loaded it; otherwise, or if input
 * and output are NULL, it is host memory. */
enum hvd_memory {
    HVD_MEMORY_ANY = 0,
    HVD_MEMORY_HOST = 1,   /* the host's, even if CUDA has pinned it */
    HVD_MEMORY_DEVICE = 2, /* a GPU's */
    HVD_MEMORY_MANAGED = 3 /* managed by CUDA: the GPU [device] uses it as its own */
};

/* A contiguous tensor, the last dimension varying fastest. In a collective all ranks have it in host memory,
 * or all have it on a GPU. Ranks may use different GPUs; each rank uses one for all its tensors. */
struct hvd_tensor {
    const char *name;  /* 1 to HVD_MAX_NAME bytes; the same on all ranks */
    const void *input; /* hvd reads it; may be NULL if there are no elements */
    void *output; /* hvd writes it; may be [input], must not partly overlap it; until the operation is done
                     no other one, and no other tensor of its group, may use it, which is not checked */
    enum hvd_dtype dtype;
    int ndim;                    /* 0 (a scalar) to HVD_MAX_DIMS */
    int64_t shape[HVD_MAX_DIMS]; /* elements in each dimension, >= 0 */
    enum hvd_memory memory;      /* of input and output */
    int device; /* DEVICE, MANAGED: CUDA's number of the GPU in this process; otherwise ignored */
};

/* A process set: some ranks of the job that run operations among themselves. It has the same number on all
 * ranks of the job. */
typedef int hvd_set;
#define HVD_ALL_RANKS 0 /* the set that always exists */

/* Options of one operation. Start from HVD_OPTIONS_INIT; NULL means HVD_OPTIONS_INIT. Both factors must be
 * finite and not 0. Scaled integers are truncated towards zero and limited to their type's range; bools are
 * not scaled. */
struct hvd_options {
    size_t size; /* sizeof(struct hvd_options) in the hvd.h that the program was compiled with. A later one
                    may be longer: a shorter struct has the defaults of the options that it lacks, and a
                    longer one is HVD_ERR_INVALID only if a byte that the library does not know is not 0 */
    hvd_set set;
    double prescale;    /* inputs are multiplied by it before they are reduced */
    double postscale;   /* results are multiplied by it after the reduction */
    enum hvd_wire wire; /* only for float32 */
    void *stream; /* tensors on a GPU: a CUstream or cudaStream_t. The operation begins when this stream has
                     finished the work that was queued in it before the call: then the input must be
                     complete, and the output free to be written. NULL: CUDA's default stream. HVD_ERR_STATE
                     while it is captured into a CUDA graph, which only persistent operations support */
};
#define HVD_OPTIONS_INIT                                                          \
    {                                                                             \
        sizeof(struct hvd_options), HVD_ALL_RANKS, 1.0, 1.0, HVD_WIRE_EXACT, NULL \
    }

/* The result of an operation whose size is known only when all ranks have submitted it. Zero it, or set
 * [allocate] and [rows]. Do not touch it until the operation is done. */
struct hvd_result {
    /* Returns memory for the result, which may be written at once. Called once, before data moves, unless
     * there are 0 bytes; on any thread that makes progress for hvd. NULL: hvd uses malloc, and the caller
     * frees [data]. For a tensor on a GPU it must be set, and must return memory on that GPU. */
    void *(*allocate)(int64_t bytes, void *arg);
    void *arg;
    int64_t *rows;     /* NULL, or an array with one number per member; out: the rows that each member sent */
    void *data;        /* out: the rows of all members, in the order of members; NULL if there are none */
    int64_t row_count; /* out: the number of rows in [data] */
};

/* An operation in flight. Never 0. */
typedef uint64_t hvd_handle;

/* Called once when the operation is done, with its final status and the [arg] given at submission. */
typedef void (*hvd_done_f)(enum hvd_status status, void *arg);

/* ---- The job -------------------------------------------------------------------------------- */

/* Join the job that srun, hvdrun, mpirun, jsrun or the environment describes, and connect to its other
 * ranks. Collective: returns when all ranks have called it, and fails after the time of the option
 * start-timeout. A failed call leaves nothing behind. May be called before or after the program's own
 * MPI_Init. After hvd_shutdown, or a failure on all ranks, all ranks may call it again. Fails at once with
 * HVD_ERR_STATE in a program that a rank in the job has started and that has inherited its variables, see
 * hvd(7). A spare of an elastic step waits here without a limit; if it is not needed, it ends here with exit
 * status 0, without the program's exit handlers. In a job on several nodes it sets environment variables for
 * NCCL, UCX, Gloo and Open MPI, see hvd(7): no other thread may use the environment during the call. */
HVD_API enum hvd_status hvd_init(void);

/* A list of ranks. */
struct hvd_ranks {
    const int *ranks;
    int count;
};

/* The job and the process sets of hvd_init_with. NULL or a zeroed struct makes it the same as hvd_init. */
struct hvd_start {
    struct hvd_ranks job; /* the launcher's ranks that form this job, this process among them; the place in
                             the list is the rank in the job. Every process that the launcher started must
                             call hvd_init_with; different lists are different jobs. Empty: all of them */
    const struct hvd_ranks
        *sets; /* process sets to create, by ranks of this job; they get the numbers 1, 2, ... */
    int set_count;
};

/* hvd_init for a part of the launcher's processes, or with process sets from the start. hvd_mpi.h makes these
 * lists from MPI communicators. */
HVD_API enum hvd_status hvd_init_with(const struct hvd_start *start);

/* Leave the job. Collective: waits until the other ranks call it. Operations that are still pending on any
 * rank complete with HVD_ERR_SHUTDOWN. Returns HVD_ERR_TIMEOUT if a rank did not answer for the time of
 * hang-abort, HVD_ERR_RANK_LOST if one was lost in a job that is not elastic, and HVD_OK if hvd is not
 * initialised. */
HVD_API enum hvd_status hvd_shutdown(void);

/* 1 between a successful hvd_init and hvd_shutdown, else 0. */
HVD_API int hvd_is_initialized(void);

/* This process's rank in the job, and the number of ranks; -1 if hvd is not initialised. hvd_local_* count
 * the ranks of this node, hvd_node_* the nodes. */
HVD_API int hvd_rank(void);
HVD_API int hvd_size(void);
HVD_API int hvd_local_rank(void);
HVD_API int hvd_local_size(void);
HVD_API int hvd_node_rank(void);
HVD_API int hvd_node_count(void);

/* Write the launcher's rank of each rank of this job, in order, at most [capacity] of them, unless [ranks]
 * is NULL: the list hvd_start.job. Returns the number of ranks in the job, -1 if hvd is not initialised. */
HVD_API int hvd_launcher_ranks(int *ranks, int capacity);

/* ---- Process sets --------------------------------------------------------------------------- */

/* Create a process set of [count] distinct ranks, in any order. Collective over all ranks of the job, members
 * or not: all pass the same ranks, otherwise all get HVD_ERR_MISMATCH. If several threads create or remove
 * sets, their calls must come in the same order on all ranks. If such a set exists: HVD_ERR_DUPLICATE, and
 * *setp is that set. */
HVD_API enum hvd_status hvd_set_add(const int *ranks, int count, hvd_set *setp);

/* As hvd_set_add, but only the [count] members call it, each with the same ranks; the others do nothing. They
 * do not know the set: their queries return -1, and hvd_set_add makes another one of the same ranks. Members
 * that have several sets in common must add these in the same order (as for MPI_Comm_create_group). If such a
 * set exists, even one that all ranks have added: HVD_ERR_DUPLICATE, and *setp is that set. */
HVD_API enum hvd_status hvd_set_add_by_members(const int *ranks, int count, hvd_set *setp);

/* Remove a process set. Collective over all ranks of the job, or over the members of a set that
 * hvd_set_add_by_members made. Operations that are still pending in it complete with HVD_ERR_SET. Its number
 * is not used again. HVD_ALL_RANKS cannot be removed. */
HVD_API enum hvd_status hvd_set_remove(hvd_set set);

/* This rank's place among the members of [set], which are in ascending order of rank; -1 if it is not a
 * member, if there is no such set, or if hvd is not initialised. */
HVD_API int hvd_set_rank(hvd_set set);

/* The number of members; -1 if there is no such set, or if hvd is not initialised. Any rank may call it. */
HVD_API int hvd_set_size(hvd_set set);

/* Write the members' ranks, at most [capacity] of them, unless [ranks] is NULL. Returns the same as
 * hvd_set_size. */
HVD_API int hvd_set_ranks(hvd_set set, int *ranks, int capacity);

/* Write the numbers of all process sets, HVD_ALL_RANKS first, at most [capacity] of them, unless [sets] is
 * NULL. Returns the number of sets, -1 if hvd is not initialised. */
HVD_API int hvd_set_list(hvd_set *sets, int capacity);

/* ---- Operations ----------------------------------------------------------------------------- */

/* Every operation comes in two forms. The plain form waits, and returns the final status. The _async form
 * returns HVD_OK once the operation is queued. Then [done], unless NULL, is called when the operation is
 * done, and [handlep], unless NULL, receives a handle that the caller must pass to hvd_wait once. On any
 * other status nothing was queued, [done] is not called and *handlep is unchanged.
 *
 * Operations are collective over the members of the set in [options]. A rank that is not a member gets
 * HVD_ERR_SET.
 *
 * A grouped operation applies to [count] tensors that are agreed on, run and done together: all or none. An
 * error in one tensor is the status of the whole group, on every rank. All ranks must form the same groups.
 */

/* Reduce [tensor] over the set; every member gets the result. Name, dtype, shape, op and options must be the
 * same on all members, otherwise every member gets HVD_ERR_MISMATCH. (MPI_Allreduce, by name as in Horovod.)
 */
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

/* Copy [input] of rank [root] to [output] of every member. [root] is a rank of the job, also inside a set. If
 * its own [output] is not its [input], it gets a copy too. hvd reads [input] on [root] only; elsewhere it may
 * be NULL. Only the set in [options] may differ from HVD_OPTIONS_INIT. (MPI_Bcast.) */
HVD_API enum hvd_status hvd_broadcast(const struct hvd_tensor *tensor, int root,
                                      const struct hvd_options *options);
HVD_API enum hvd_status hvd_broadcast_async(const struct hvd_tensor *tensor, int root,
                                            const struct hvd_options *options, hvd_done_f done, void *arg,
                                            hvd_handle *handlep);

/* Concatenate the members' tensors along the first dimension; every member gets the whole. The first
 * dimension may differ between members; the other dimensions must be the same. A scalar is an error. [output]
 * must be NULL: the data goes to [result]. Only the set in [options] may differ from HVD_OPTIONS_INIT.
 * (MPI_Allgatherv.) */
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

/* Send the first splits[0] rows of [input] to the set's first member, the next splits[1] rows to the second,
 * and so on; receive rows from all members. [splits] has one number per member, whose sum is the first
 * dimension; it is copied. NULL: equal parts, and the number of members must divide the first dimension.
 * result->rows receives the number of rows that each member sent. Everything else is as in hvd_allgather.
 * (MPI_Alltoallv.) */
HVD_API enum hvd_status hvd_alltoall(const struct hvd_tensor *tensor, const int64_t *splits,
                                     struct hvd_result *result, const struct hvd_options *options);
HVD_API enum hvd_status hvd_alltoall_async(const struct hvd_tensor *tensor, const int64_t *splits,
                                           struct hvd_result *result, const struct hvd_options *options,
                                           hvd_done_f done, void *arg, hvd_handle *handlep);

/* Reduce [tensor] over the set; each member gets its share of the rows. The first (rows % members) members
 * get one row more than the others, see hvd_share_rows. [output] must have room for this rank's share.
 * HVD_ADASUM and scalars are errors. */
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

/* As hvd_reducescatter, but the first member gets the first splits[0] rows, the second the next splits[1]
 * rows, and so on. [splits] has one number per member, the same on all members, whose sum is the first
 * dimension; it is copied. NULL: the shares of hvd_reducescatter. (MPI_Reduce_scatter.) */
HVD_API enum hvd_status hvd_reducescatterv(const struct hvd_tensor *tensor, const int64_t *splits,
                                           enum hvd_op op, const struct hvd_options *options);
HVD_API enum hvd_status hvd_reducescatterv_async(const struct hvd_tensor *tensor, const int64_t *splits,
                                                 enum hvd_op op, const struct hvd_options *options,
                                                 hvd_done_f done, void *arg, hvd_handle *handlep);

/* Reduce [tensor] over the set; only [root], a rank of the job, gets the result. Elsewhere [output] is not
 * written, and may be NULL. Everything else is as in hvd_allreduce, but HVD_ADASUM is an error.
 * (MPI_Reduce.) */
HVD_API enum hvd_status hvd_reduce(const struct hvd_tensor *tensor, enum hvd_op op, int root,
                                   const struct hvd_options *options);
HVD_API enum hvd_status hvd_reduce_async(const struct hvd_tensor *tensor, enum hvd_op op, int root,
                                         const struct hvd_options *options, hvd_done_f done, void *arg,
                                         hvd_handle *handlep);

/* As hvd_allgather, but only [root], a rank of the job, gets the rows. The [result] of the others has none.
 * (MPI_Gatherv.) */
HVD_API enum hvd_status hvd_gather(const struct hvd_tensor *tensor, int root, struct hvd_result *result,
                                   const struct hvd_options *options);
HVD_API enum hvd_status hvd_gather_async(const struct hvd_tensor *tensor, int root, struct hvd_result *result,
                                         const struct hvd_options *options, hvd_done_f done, void *arg,
                                         hvd_handle *handlep);

/* As hvd_alltoall, but only [root], a rank of the job, sends rows. hvd reads [splits], [input] and the first
 * dimension on [root] only; elsewhere the pointers may be NULL. (MPI_Scatterv.) */
HVD_API enum hvd_status hvd_scatter(const struct hvd_tensor *tensor, const int64_t *splits, int root,
                                    struct hvd_result *result, const struct hvd_options *options);
HVD_API enum hvd_status hvd_scatter_async(const struct hvd_tensor *tensor, const int64_t *splits, int root,
                                          struct hvd_result *result, const struct hvd_options *options,
                                          hvd_done_f done, void *arg, hvd_handle *handlep);

/* Tell the other members that this rank has no more data (Horovod's join). Until all members have joined,
 * this rank takes part in their barriers, and contributes zeros to their allreduces by HVD_SUM, HVD_AVERAGE
 * and HVD_ADASUM; other operations of the members end with HVD_ERR_MISMATCH on all members. Done when all
 * members have joined; *last_rankp, unless NULL, is then the rank of the job that joined last. Do not touch
 * it before. A set has at most one join in flight. */
HVD_API enum hvd_status hvd_join(hvd_set set, int *last_rankp);
HVD_API enum hvd_status hvd_join_async(hvd_set set, int *last_rankp, hvd_done_f done, void *arg,
                                       hvd_handle *handlep);

/* Done when every member has submitted it. A set has at most one barrier in flight. (MPI_Barrier.) */
HVD_API enum hvd_status hvd_barrier(hvd_set set);
HVD_API enum hvd_status hvd_barrier_async(hvd_set set, hvd_done_f done, void *arg, hvd_handle *handlep);

/* Returns HVD_IN_PROGRESS, or the operation's final status. Never waits. The handle stays valid. */
HVD_API enum hvd_status hvd_test(hvd_handle handle);

/* Wait until the operation is launched: all ranks have agreed on it, and all its work on this rank's GPU is
 * in the queue of the GPU. Then make [stream] (a CUstream or cudaStream_t of that GPU; NULL: CUDA's default
 * stream) wait for its end, release the handle and return HVD_OK. The host does not wait for the result:
 * work that is put into [stream] from now on finds it. The tensors belong to hvd until the operation has
 * run; a struct hvd_result is complete, and belongs to the caller, at once. If a rank is lost after the
 * launch, the stream goes on, the result is undefined, and the next operation returns HVD_ERR_RANK_LOST. An
 * operation that failed before the launch returns its status. While [stream] is captured into a CUDA graph:
 * HVD_ERR_STATE, and the handle stays valid. An operation on host memory ends as in hvd_wait, and [stream]
 * is ignored. */
HVD_API enum hvd_status hvd_wait_on_stream(hvd_handle handle, void *stream);

/* As hvd_wait_on_stream, but for at most [timeout_us] microseconds: HVD_IN_PROGRESS if the operation is
 * neither launched nor done by then; the handle stays valid, and the operation goes on. */
HVD_API enum hvd_status hvd_wait_on_stream_for(hvd_handle handle, void *stream, int64_t timeout_us);

/* Wait until the operation is done, release the handle and return the final status. While it waits, the
 * calling thread may make progress for hvd and run callbacks of other operations. HVD_ERR_INVALID if no
 * operation in flight has this handle. */
HVD_API enum hvd_status hvd_wait(hvd_handle handle);

/* As hvd_wait, but for at most [timeout_us] microseconds: HVD_IN_PROGRESS if the operation is not done by
 * then; the handle stays valid, and the operation goes on: its tensors are still in use. */
HVD_API enum hvd_status hvd_wait_for(hvd_handle handle, int64_t timeout_us);

/* ---- Persistent operations ------------------------------------------------------------------ */

/* A collective of tensors on GPUs that its ranks agree on once and then start as often as they like. A start
 * needs no agreement and no wait of the host, and is possible while the stream is captured into a CUDA
 * graph, which then repeats it. (Persistent collectives of MPI 4: MPI_Allreduce_init, MPI_Start,
 * MPI_Request_free.) Never 0. */
typedef uint64_t hvd_persistent;

/* Make a persistent operation, and set *persistentp to it. Collective over the members of the set in
 * [options]: returns when all have called it and agree, as for an operation that runs once; on an error no
 * member has made one. [tensors], 1 to HVD_MAX_GROUP of them, are one operation, all of the same process
 * set, under the names of the tensors. Small tensors are packed into a buffer of the operation; large ones
 * stay where they are. Their memory stays the caller's: keep it, and put nothing else in its place, until
 * hvd_persistent_free, and until all starts before it are done. Names and shapes are copied. options.stream
 * is ignored.
 *
 * Only NCCL runs such operations. All members get HVD_ERR_UNSUPPORTED if a tensor is in host memory, if NCCL
 * lacks the type and reduction (as for HVD_ADASUM, HVD_BOOL and HVD_INT16), or if it does not connect their
 * GPUs; the only member of a set needs no NCCL. */
HVD_API enum hvd_status hvd_allreduce_init(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                           const struct hvd_options *options, hvd_persistent *persistentp);
HVD_API enum hvd_status hvd_broadcast_init(const struct hvd_tensor *tensor, int root,
                                           const struct hvd_options *options, hvd_persistent *persistentp);
HVD_API enum hvd_status hvd_reducescatter_init(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                               const struct hvd_options *options,
                                               hvd_persistent *persistentp);

/* The same for hvd_allgather. It keeps the row counts and the result memory of this call: [results] are
 * complete when it returns, and every start writes results[i].data anew. */
HVD_API enum hvd_status hvd_allgather_init(const struct hvd_tensor *tensors, struct hvd_result *results,
                                           int count, const struct hvd_options *options,
                                           hvd_persistent *persistentp);

/* Start the operation in [stream] (a CUstream or cudaStream_t of the tensors' GPU; NULL: CUDA's default
 * stream): it begins when the stream has finished earlier work, and work that is put into it from now on
 * finds the result. The call returns when the whole operation is in the stream; the host does not wait for
 * the GPU. The first start of a process set may wait for the other members, while NCCL connects them for it.
 * A start need not be done before the next one. HVD_ERR_STATE in a callback, and after hvd_join until it has
 * returned.
 *
 * All members must start their persistent operations, and submit all other operations on GPUs, in the same
 * order. Nothing checks this, and GPUs that run them in different orders wait for each other (MPI_Start has
 * the same rule). An operation that this rank submitted earlier is launched first; the call waits for that.
 *
 * While [stream] is captured into a CUDA graph, the operation becomes part of the graph, and runs each time
 * the graph is launched. hvd does not see these launches. Therefore the call waits until the GPU has
 * finished all other operations of hvd, and from then on, until hvd_persistent_free of this one, every other
 * collective of this rank on GPUs, hvd_join and hvd_set_add return HVD_ERR_STATE; persistent operations may
 * be started, and operations on host memory go on. The program orders the launches of graphs, and starts
 * outside them, by its streams. Destroy graphs before hvd_persistent_free: their launches use the
 * operation's memory. NCCL cannot close a communicator that a graph holds: a graph that is left when its
 * process set is removed, or at hvd_shutdown, costs some seconds there, and the communicator stays.
 *
 * If the job has failed, or the process set was removed, the call returns the cause. If a rank is lost while
 * the GPU runs the operation, the stream goes on, and the result is undefined. A rank that does not start it
 * keeps the streams of the others waiting; the stall inspector reports this for a start outside a graph. */
HVD_API enum hvd_status hvd_persistent_start(hvd_persistent persistent, void *stream);

/* Free a persistent operation. Local; may be called in a callback. Starts in progress go on, and the GPU
 * gets the memory back a moment later. HVD_ERR_INVALID if there is no such operation. hvd_shutdown frees the
 * operations that are left. */
HVD_API enum hvd_status hvd_persistent_free(hvd_persistent persistent);

/* ---- Memory --------------------------------------------------------------------------------- */

/* Allocate [bytes] of zeroed memory for tensors, on separate pages, and set *memoryp to it; NULL for 0
 * bytes. The other ranks of this node can access it too. An allreduce between ranks of one node copies
 * nothing if the inputs and outputs of all members are in such memory. In every other operation it is
 * ordinary memory: each rank is free to use it or not, and results have the same bits. Several tensors may
 * share one allocation. (The purpose is that of MPI_Alloc_mem and ncclMemAlloc.)
 *
 * The memory stays valid until hvd_free, even after hvd_shutdown. Until hvd_shutdown has returned, other
 * ranks may still write to outputs of operations that failed. A child of fork shares the memory with its
 * parent; it does not get a copy. HVD_ERR_STATE before hvd_init. */
HVD_API enum hvd_status hvd_alloc(int64_t bytes, void **memoryp);

/* Allocate [bytes] of memory for tensors on GPU [device] (CUDA's number in this process), which becomes this
 * rank's GPU, and set *memoryp to it; NULL for 0 bytes. It is not zeroed. NCCL allocates and registers it:
 * in an allreduce, a broadcast in place and a reducescatter to other memory, NCCL needs no further copies if
 * all members have input and output in one such allocation, at the same offset in it. For this, all ranks
 * must allocate the same sizes in the same order. Tensors of one such operation that lie end to end, in the
 * order of the group, are not packed. In all other cases it is ordinary GPU memory: each rank is free to use
 * it or not. Several tensors may share one allocation, which takes whole pages of the GPU, mostly of 2 MiB.
 *
 * The memory stays valid until hvd_free, even after hvd_shutdown. It is ordinary memory in later jobs, and
 * if NCCL is missing or older than 2.19. HVD_ERR_STATE before hvd_init; HVD_ERR_INVALID if earlier tensors
 * of this rank are on another GPU. */
HVD_API enum hvd_status hvd_alloc_on(int device, int64_t bytes, void **memoryp);

/* Free memory from hvd_alloc or hvd_alloc_on. No operation that uses it may be in flight. Does nothing for
 * NULL. HVD_ERR_INVALID for a pointer that is not from these calls or was already freed. May be called after
 * hvd_shutdown. A GPU gets its memory back a moment later, when NCCL has released it. */
HVD_API enum hvd_status hvd_free(void *memory);

/* ---- Elastic jobs --------------------------------------------------------------------------- */

/* The state of training that all ranks have in common, such as weights and the number of steps: parts of host
 * memory or of a GPU that belong to the program. When ranks are lost, the others go back to its last commit
 * together, and ranks that join get it. (The State, commit and run of Horovod's hvd.elastic.) Never 0.
 *
 * All calls for one state come from one thread at a time. Those that are collective include all ranks of the
 * job, use operations whose names begin with "hvd.state.", which the program leaves alone, and return
 * HVD_ERR_STATE in a callback. */
typedef uint64_t hvd_state;

/* Make a state without parts, and set *statep to it. Local, as are hvd_state_add, hvd_state_on_reset and
 * hvd_state_free; may be called before hvd_init. */
HVD_API enum hvd_status hvd_state_create(hvd_state *statep);

/* Add [bytes] of memory at [data] to the state, under a name of 1 to HVD_MAX_NAME bytes; it is copied. The
 * memory is the host's, or that of this rank's GPU (hvd_state_sync finds out which), and stays the caller's:
 * keep it until hvd_state_free. All ranks must add the same names and sizes in
 * the same order, which hvd_state_sync checks; contents may differ until then. HVD_ERR_DUPLICATE if the state
 * has a part of that name, HVD_ERR_STATE after the first hvd_state_sync. */
HVD_API enum hvd_status hvd_state_add(hvd_state state, const char *name, void *data, int64_t bytes);

/* Let hvd_elastic_run call [reset] with [arg] at the start of every epoch, the first one included, before it
 * synchronises the state: to make process sets and persistent operations, or to share out the data among the
 * ranks there are now. It may run collectives, because all ranks of an epoch call it. NULL: none. */
typedef void (*hvd_reset_f)(void *arg);
HVD_API enum hvd_status hvd_state_on_reset(hvd_state state, hvd_reset_f reset, void *arg);

/* Free the state and its commits; the parts are the program's. Waits until the last commit is on disk, if
 * that is asked for. HVD_ERR_STATE inside hvd_elastic_run with this state. States outlive hvd_shutdown. */
HVD_API enum hvd_status hvd_state_free(hvd_state state);

/* Copy the state to memory of hvd, and wait until all ranks have done so: the state to which ranks go back
 * when one is lost. Then it answers as hvd_state_check. All ranks commit the same state, after the same
 * steps. hvd keeps two copies of the state, in host memory that the first hvd_state_sync allocates; before it
 * copies a part that is on a GPU it waits for all work of that GPU. HVD_ERR_STATE before hvd_state_sync in
 * this epoch. After any error the state is to be synchronised again.
 *
 * With --hvd-state-dir rank 0 also writes the commit to disk. A thread of hvd does so beside training, from a
 * third copy; while it still writes, the newest commit waits, in place of one that waited. A disk that fails
 * costs one warning, and training goes on. */
HVD_API enum hvd_status hvd_state_commit(hvd_state state);

/* Ask whether ranks wait to join the job, or are to leave it. Collective, and as cheap as an allreduce of one
 * number. HVD_NEW_RANKS on all ranks at the same call if so, otherwise HVD_OK. Errors are those of
 * hvd_state_commit.
 */
HVD_API enum hvd_status hvd_state_check(hvd_state state);

/* Give all ranks the same state. Collective; the first sync of an epoch counts as a commit if it sends
 * anything. hvd_elastic_run calls it.
 *
 * If hvd_init was called anew since the last sync, each rank that has a commit goes back to the last one that
 * all such ranks have; if the last commit or check was HVD_NEW_RANKS on all of them, they keep their state.
 * Then, if a rank has no commit yet, all ranks get the state of the first rank that has one; if none has, the
 * newest whole commit that any rank finds in the folder of --hvd-state-dir; if there is none, the state of
 * rank 0. Otherwise nothing is sent.
 *
 * HVD_ERR_MISMATCH, with the part, if parts differ; HVD_ERR_NO_MEMORY if a rank has no memory for the copies;
 * HVD_ERR_MISMATCH, HVD_ERR_INVALID or HVD_ERR_SYSTEM if there are files of commits, but all are of another
 * state, damaged or cannot be read; all on all ranks. After HVD_ERR_RANK_LOST the commits are what they were,
 * and the contents of parts may be those of the commit. */
HVD_API enum hvd_status hvd_state_sync(hvd_state state);

/* For states that a program copies and sends by itself, as Python does: bytes of any number, which
 * --hvd-state-dir puts on disk. The state has no parts.
 *
 * The folder of --hvd-state-dir, or NULL if there is none or hvd is not initialised; valid until
 * hvd_shutdown. */
HVD_API const char *hvd_state_dir(void);

/* Find the newest bytes that any rank has on disk under this [name] of 1 to HVD_MAX_NAME bytes. Collective;
 * if no rank of the job has a state yet, call it once, before hvd_state_write. On rank 0 *datap is set to
 * them, which the caller frees (free), and on all ranks *bytesp to their number; NULL and 0 if there are
 * none. Errors are those of hvd_state_sync; files of another name are of another state. */
HVD_API enum hvd_status hvd_state_read(hvd_state state, const char *name, void **datap, int64_t *bytesp);

/* On rank 0: hand [bytes] (> 0) at [data] over as the next commit, as hvd_state_commit does when all ranks
 * have saved it; they are copied. Local. On other ranks, and without --hvd-state-dir, it does nothing.
 * hvd_state_free waits until the last one has reached the disk. On any rank, 0 bytes at NULL are a commit of
 * which nothing is to be written; "hvdinfo ps" says when the last commit was. */
HVD_API enum hvd_status hvd_state_write(hvd_state state, const char *name, const void *data, int64_t bytes);

/* Train, and go on when ranks are lost or join. [train] returns a status: HVD_OK when it has finished, the
 * error of the call that failed, or HVD_NEW_RANKS when hvd_state_commit or hvd_state_check has said so. It is
 * called again for each epoch, and finds in the state how far training is: it repeats what it has done since
 * the last commit if a rank was lost, and nothing if ranks join.
 *
 * The call does hvd_init, unless that was done; then, for each epoch, the function of hvd_state_on_reset,
 * hvd_state_sync and [train]. When one of these returns HVD_ERR_RANK_LOST or HVD_NEW_RANKS, it does
 * hvd_shutdown and hvd_init, and begins the next epoch. Any other status of [train] or hvd_state_sync is
 * returned, and that of hvd_init if it fails. HVD_ERR_RANK_LOST is returned at once if the launcher cannot go
 * on without a rank (hvdrun can, with --min-np), and after three losses without a commit in between.
 *
 * With --hvd-state-dir the last commit has reached the disk when it returns, or there was a warning. hvd is
 * still initialised then, unless hvd_init failed: call hvd_shutdown. Process sets, persistent operations and
 * handles end with their epoch; ranks and their number may change. HVD_ERR_STATE inside [train] with the same
 * state. */
typedef enum hvd_status (*hvd_train_f)(hvd_state state, void *arg);
HVD_API enum hvd_status hvd_elastic_run(hvd_train_f train, hvd_state state, void *arg);

/* ---- Stopping, observing -------------------------------------------------------------------- */

/* Ask the job to stop: the next hvd_should_stop reports it to all ranks. May be called from signal handlers,
 * from any thread, and before hvd_init. The request ends with the job, in hvd_shutdown; a request between
 * two jobs applies to the next. */
HVD_API void hvd_request_stop(void);

/* Should the program stop? Collective over all ranks. *stopp becomes 1 on all ranks if any rank has called
 * hvd_request_stop or has received the signal of the option stop-signal, otherwise 0 on all ranks. Once it
 * has been 1 it stays 1 until hvd_shutdown. */
HVD_API enum hvd_status hvd_should_stop(int *stopp);

/* Write a timeline of this rank into [folder], as the option timeline does, until hvd_timeline_stop. Both
 * calls are local. HVD_ERR_STATE if a timeline is already being written (start), or if none is (stop). */
HVD_API enum hvd_status hvd_timeline_start(const char *folder);
HVD_API enum hvd_status hvd_timeline_stop(void);

/* ---- Helpers and error text ----------------------------------------------------------------- */

/* Describes a tensor of one dimension whose input and output are the same array. */
static inline struct hvd_tensor hvd_vector(const char *name, void *data, int64_t count, enum hvd_dtype dtype)
{
    struct hvd_tensor tensor = {name, data, data, dtype, 1, {count}, HVD_MEMORY_ANY, 0};
    return tensor;
}

/* The number of the [rows] rows that member [member] of [size] gets in a reducescatter. */
static inline int64_t hvd_share_rows(int64_t rows, int member, int size)
{
    return rows / size + (member < rows % size);
}

/* ---- Messages ------------------------------------------------------------------------------- */

/* A send and a receive make a message between two ranks; no other rank takes part. A message goes to the
 * oldest receive with its process set, tag and sender, and messages of one sender with one set and tag arrive
 * in the order in which they were submitted. Both ends give the same type and number of elements, otherwise
 * both get HVD_ERR_MISMATCH, unless the send is done already: then its rank's log says it. Their
 * tensors' names may be NULL. Of [options] only the set and the stream have a meaning.
 *
 * A tensor on a GPU goes through memory of the host; its other end may be in host memory. A message
 * waits for the stream of [options] as a collective does, and those of one group with a GPU all do. It is
 * launched when it is done: hvd_wait_on_stream waits that long. It may be submitted while a persistent
 * operation is in a CUDA graph. Until hvd_shutdown hvd keeps as much pinned memory as such messages took at
 * once, each a multiple of 256 KiB.
 *
 * A send of up to 32 KiB is done when it is on its way, whether it is received or not, while the receiver has
 * room left for its sender: 512 KiB. Any other is done when it is received. So a program must not rely on a
 * send that waits being done before its receive is submitted: ranks that send to each other, in a ring say,
 * submit both in one hvd_exchange, or as _async.
 *
 * While other ranks call hvd_shutdown messages still arrive; they end with HVD_ERR_SHUTDOWN when all have
 * called it, a receive when the rank that it is from has, and a send that waits for its receive when the rank
 * that it goes to has. */
#define HVD_ANY_SOURCE (-1) /* receive from whichever rank sends first */

/* Send tensor->input to [rank], a member by its rank in the job; this rank too. [tag]: 0 or more. */
HVD_API enum hvd_status hvd_send(const struct hvd_tensor *tensor, int rank, int tag,
                                 const struct hvd_options *options);
HVD_API enum hvd_status hvd_send_async(const struct hvd_tensor *tensor, int rank, int tag,
                                       const struct hvd_options *options, hvd_done_f done, void *arg,
                                       hvd_handle *handlep);

/* Receive into tensor->output from [rank], or HVD_ANY_SOURCE. *sourcep, unless NULL, is the rank that sent
 * it; in the _async form it must stay until the operation is done. */
HVD_API enum hvd_status hvd_recv(const struct hvd_tensor *tensor, int rank, int tag,
                                 const struct hvd_options *options, int *sourcep);
HVD_API enum hvd_status hvd_recv_async(const struct hvd_tensor *tensor, int rank, int tag,
                                       const struct hvd_options *options, int *sourcep, hvd_done_f done,
                                       void *arg, hvd_handle *handlep);

enum hvd_direction { HVD_SEND = 0, HVD_RECV = 1 };

/* One message of a group. */
struct hvd_message {
    enum hvd_direction direction;
    struct hvd_tensor tensor;
    int rank;     /* the other end, by its rank in the job; HVD_RECV: or HVD_ANY_SOURCE */
    int tag;      /* 0 or more */
    int *sourcep; /* HVD_RECV: NULL, or gets the rank that sent it */
};

/* Sends and receives that all begin at once, so that none waits for another, and that are done together. An
 * error of one is the status of the group, once all are over. [messages] need not stay; what they point to
 * must. */
HVD_API enum hvd_status hvd_exchange(const struct hvd_message *messages, int count,
                                     const struct hvd_options *options);
HVD_API enum hvd_status hvd_exchange_async(const struct hvd_message *messages, int count,
                                           const struct hvd_options *options, hvd_done_f done, void *arg,
                                           hvd_handle *handlep);

/* The sentence that explains the last error that a call returned to this thread; "" if there was none. A
 * successful call does not change it. Valid until this thread's next call of hvd. */
HVD_API const char *hvd_error_text(void);

/* Set the text that hvd_error_text returns on this thread to a copy of [sentence], which may be that text
 * itself, and return [status]. NULL means "". For libraries that are built on hvd and report errors in the
 * same way. */
HVD_API enum hvd_status hvd_error_set(enum hvd_status status, const char *sentence);

/* The meaning of a status, in a few words. Never NULL. */
HVD_API const char *hvd_status_text(enum hvd_status status);

/* The version of the library, such as "0.1.0". */
HVD_API const char *hvd_version(void);

#ifdef __cplusplus
}
#endif
#endif
