/* hvd.h: data-parallel collectives between the ranks of a job.
 *
 * Threads.    Any thread may make any call once hvd_init has returned. Only hvd_init and hvd_shutdown
 *             differ: one thread calls them while no other thread is in a call. A callback runs on a
 *             thread that is inside hvd_wait, or on a thread of hvd's own. It may submit operations, but
 *             must not wait, initialise or shut down.
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

/* One value for each different reaction of a caller. 0 is success, positive is not done yet, negative is an
 * error. */
enum hvd_status {
    HVD_OK = 0,
    HVD_IN_PROGRESS = 1,      /* not done yet: call again, or wait */
    HVD_ERR_INVALID = -1,     /* an argument, an option or the environment is wrong: correct it */
    HVD_ERR_STATE = -2,       /* not allowed now: before hvd_init, after hvd_shutdown, inside a callback */
    HVD_ERR_DUPLICATE = -3,   /* an operation of that name is still in flight on this rank */
    HVD_ERR_MISMATCH = -4,    /* the ranks disagree on this operation or on the job */
    HVD_ERR_UNSUPPORTED = -5, /* no backend that all ranks have can carry this */
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

/* Reductions, elementwise and in the order of ranks, on GPUs in the order of the library that carries them.
 * Integer sums and products wrap around. Types of 8 and 16 bits with a fraction are accumulated as
 * float32 and rounded once; a float8 that would be too large, or infinite, becomes the largest finite one.
 * For HVD_BOOL, sum and max are "or", min and product are "and". */
enum hvd_op {
    HVD_SUM = 0,
    HVD_AVERAGE = 1, /* the sum divided by the number of ranks; integers are truncated towards zero; not for
                        bools */
    HVD_MIN = 2,     /* a NaN on any rank gives NaN, on GPUs a NaN or the least of the others */
    HVD_MAX = 3,
    HVD_PRODUCT = 4,
    HVD_ADASUM =
        5 /* only for allreduce of floating-point tensors in a set whose size is a power of two: pairs
             of vectors a, b become (1 - a.b / 2a.a) a + (1 - a.b / 2b.b) b, neighbours first */
};

/* The type in which float32 elements travel between ranks; not for Adasum. Sums are still computed in
 * float32, and rounded to this type at every hop. */
enum hvd_wire { HVD_WIRE_EXACT = 0, HVD_WIRE_FLOAT16 = 1, HVD_WIRE_BFLOAT16 = 2 };

#define HVD_MAX_DIMS  8
#define HVD_MAX_NAME  255   /* bytes of a name, without the final 0 */
#define HVD_MAX_GROUP 16384 /* tensors of one grouped operation */

/* In which memory a tensor is. ANY: hvd asks CUDA's driver, if this process has loaded it; otherwise, and
 * where input and output are NULL, it is the host's. */
enum hvd_memory {
    HVD_MEMORY_ANY = 0,
    HVD_MEMORY_HOST = 1,   /* the host's, also where CUDA has pinned it */
    HVD_MEMORY_DEVICE = 2, /* a GPU's */
    HVD_MEMORY_MANAGED = 3 /* managed by CUDA: the GPU [device] works on it, as on its own */
};

/* A tensor, contiguous, the last dimension varying fastest. All ranks have it in host memory, or all have it
 * on a GPU; which GPU may differ between ranks, and is the same for all tensors of a rank. */
struct hvd_tensor {
    const char *name;  /* 1 to HVD_MAX_NAME bytes; the same on all ranks */
    const void *input; /* hvd reads it; may be NULL if there are no elements */
    void *output;      /* hvd writes it; may be [input], must not partly overlap it */
    enum hvd_dtype dtype;
    int ndim;                    /* 0 (a scalar) to HVD_MAX_DIMS */
    int64_t shape[HVD_MAX_DIMS]; /* elements in each dimension, >= 0 */
    enum hvd_memory memory;      /* of input and output */
    int device; /* DEVICE, MANAGED: CUDA's number of the GPU in this process; otherwise it is not looked at */
};

/* A process set: some ranks of the job that run operations among themselves. All ranks of the job know it by
 * the same number. */
typedef int hvd_set;
#define HVD_ALL_RANKS 0 /* the set that always exists */

/* Options of one operation. Start from HVD_OPTIONS_INIT; NULL means HVD_OPTIONS_INIT. Both factors must be
 * finite and not 0. Scaled integers are truncated towards zero and limited to their type's range; bools are
 * not scaled. */
struct hvd_options {
    size_t
        size; /* of this struct, in the hvd.h that the program was compiled with: later ones may be longer */
    hvd_set set;
    double prescale;    /* inputs are multiplied by it before they are reduced */
    double postscale;   /* results are multiplied by it after the reduction */
    enum hvd_wire wire; /* only for float32 */
    void *stream; /* tensors on a GPU: a CUstream or cudaStream_t. The input is complete, and the output free
                     to be written, when it has done what was queued in it before the call. NULL: CUDA's
                     default stream. HVD_ERR_STATE while it is captured into a CUDA graph, where only
                     persistent operations may be started */
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
     * frees [data]. A tensor on a GPU needs it, and memory on that GPU from it. */
    void *(*allocate)(int64_t bytes, void *arg);
    void *arg;
    int64_t *rows;     /* NULL, or an array with one number per member; out: how many rows that member sent */
    void *data;        /* out: the rows of all members, in the order of members; NULL if there are none */
    int64_t row_count; /* out: the number of rows in [data] */
};

/* An operation in flight. Never 0. */
typedef uint64_t hvd_handle;

/* Called once when the operation is done, with its final status and the [arg] given at submission. */
typedef void (*hvd_done_f)(enum hvd_status status, void *arg);

/* ---- The job -------------------------------------------------------------------------------- */

/* Join the job that srun, hvdrun, mpirun, jsrun or the environment describes, and connect to its other ranks.
 * Collective: returns when all ranks have called it, and fails after the time of the option start-timeout. A
 * failed call leaves nothing behind. May be called before or after the program's own MPI_Init. After
 * hvd_shutdown, or a failure on all ranks, all ranks may call it again. In a job on several nodes it sets
 * environment variables for NCCL, UCX, Gloo and Open MPI, see hvd(7): no other thread may use the environment
 * during the call. */
HVD_API enum hvd_status hvd_init(void);

/* A list of ranks. */
struct hvd_ranks {
    const int *ranks;
    int count;
};

/* What hvd_init_with does beyond hvd_init. NULL or a zeroed struct makes it the same as hvd_init. */
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
 * rank complete with HVD_ERR_SHUTDOWN. Returns HVD_ERR_TIMEOUT where a rank did not answer for the time of
 * hang-abort, and HVD_OK when not initialised. */
HVD_API enum hvd_status hvd_shutdown(void);

/* 1 between a successful hvd_init and hvd_shutdown, else 0. */
HVD_API int hvd_is_initialized(void);

/* This process's place in the job; -1 when not initialised. hvd_local_* count the ranks of this node,
 * hvd_node_* the nodes. */
HVD_API int hvd_rank(void);
HVD_API int hvd_size(void);
HVD_API int hvd_local_rank(void);
HVD_API int hvd_local_size(void);
HVD_API int hvd_node_rank(void);
HVD_API int hvd_node_count(void);

/* Write the launcher's rank of each rank of this job, in order, at most [capacity] of them: the list
 * hvd_start.job. Returns the number of ranks in the job, -1 when not initialised. */
HVD_API int hvd_launcher_ranks(int *ranks, int capacity);

/* ---- Process sets --------------------------------------------------------------------------- */

/* Create a process set of [count] distinct ranks, in any order. Collective over all ranks of the job, members
 * or not: all pass the same ranks, otherwise all get HVD_ERR_MISMATCH. If several threads create or remove
 * sets, their calls must come in the same order on all ranks. If such a set exists: HVD_ERR_DUPLICATE, and
 * *setp is that set. */
HVD_API enum hvd_status hvd_set_add(const int *ranks, int count, hvd_set *setp);

/* Remove a process set. Collective over all ranks of the job. Operations that are still pending in it
 * complete with HVD_ERR_SET. Its number is not used again. HVD_ALL_RANKS cannot be removed. */
HVD_API enum hvd_status hvd_set_remove(hvd_set set);

/* This rank's place among the members of [set], which are in ascending order of rank; -1 if it is not a
 * member, if there is no such set, or when not initialised. */
HVD_API int hvd_set_rank(hvd_set set);

/* The number of members; -1 if there is no such set, or when not initialised. Any rank may ask. */
HVD_API int hvd_set_size(hvd_set set);

/* Write the members' ranks, at most [capacity] of them. Returns what hvd_set_size returns. */
HVD_API int hvd_set_ranks(hvd_set set, int *ranks, int capacity);

/* Write the numbers of all process sets, HVD_ALL_RANKS first, at most [capacity] of them. Returns the number
 * of sets, -1 when not initialised. */
HVD_API int hvd_set_list(hvd_set *sets, int capacity);

/* ---- Operations ----------------------------------------------------------------------------- */

/* Every operation comes in two forms. The plain form waits, and returns the final status. The _async form
 * returns HVD_OK once the operation is queued; then [done]     unless NULL, is called when the operation is
 * done; [handlep]  unless NULL, receives a handle; the caller must pass it to hvd_wait once. On any other
 * status nothing was queued, [done] is not called and *handlep is unchanged.
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
 * HVD_ADASUM and scalars are errors. (MPI_Reduce_scatter.) */
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

/* Tell the other members that this rank has no more data (Horovod's join). Until all members have joined,
 * this rank takes part in their barriers, and with zeros in their allreduces of HVD_SUM, HVD_AVERAGE and
 * HVD_ADASUM; their other operations end with HVD_ERR_MISMATCH on all members. Done when all members have
 * joined; *last_rankp, unless NULL, is then the rank of the job that joined last. Do not touch it before. A
 * set has at most one join in flight. */
HVD_API enum hvd_status hvd_join(hvd_set set, int *last_rankp);
HVD_API enum hvd_status hvd_join_async(hvd_set set, int *last_rankp, hvd_done_f done, void *arg,
                                       hvd_handle *handlep);

/* Done when every member has submitted it. A set has at most one barrier in flight. (MPI_Barrier.) */
HVD_API enum hvd_status hvd_barrier(hvd_set set);
HVD_API enum hvd_status hvd_barrier_async(hvd_set set, hvd_done_f done, void *arg, hvd_handle *handlep);

/* Returns HVD_IN_PROGRESS, or the operation's final status. Never waits. The handle stays valid. */
HVD_API enum hvd_status hvd_test(hvd_handle handle);

/* Wait until the operation is launched: all ranks have agreed on it, and everything that it does on this
 * rank's GPU is in the queue of that. Then let [stream] (a CUstream or cudaStream_t of that GPU; NULL: CUDA's
 * default stream) wait for its end, release the handle and return HVD_OK. The host does not wait for
 * the result: work that is put into [stream] from now on finds it. Until that work runs the tensors remain
 * hvd's; a struct hvd_result is the caller's, and complete, at once. If a rank is lost after the launch the
 * stream goes on, the result is undefined, and the next operation returns HVD_ERR_RANK_LOST. An operation
 * that failed before returns its status. While [stream] is captured into a CUDA graph: HVD_ERR_STATE, and the
 * handle stays valid. One on host memory ends as in hvd_wait, and [stream] is not looked at. */
HVD_API enum hvd_status hvd_wait_on_stream(hvd_handle handle, void *stream);

/* Wait until the operation is done, release the handle and return the final status. While it waits, the
 * calling thread may make progress for hvd and run callbacks of other operations. HVD_ERR_INVALID if no
 * operation in flight has this handle. */
HVD_API enum hvd_status hvd_wait(hvd_handle handle);

/* ---- Persistent operations ------------------------------------------------------------------ */

/* A collective of tensors on GPUs that its ranks agree on once, and then start as often as they like: without
 * agreement, without a wait of the host, and also while the stream is captured into a CUDA graph, which then
 * repeats it. (Persistent collectives of MPI 4: MPI_Allreduce_init, MPI_Start, MPI_Request_free.) Never 0. */
typedef uint64_t hvd_persistent;

/* Make a persistent operation, and set *persistentp to it. Collective over the members of the set in
 * [options]: returns when all have called it and agree, as for the operation that runs once; on an error no
 * member has made one. [tensors], 1 to HVD_MAX_GROUP of them, are one operation, all of the same process set,
 * under the names of the tensors. Small ones are packed in the operation's own memory, and large ones stay
 * where they are. Their memory stays the caller's: keep it, and put nothing else in its place, until
 * hvd_persistent_free, and until what was started before is done. Names and shapes are copied. options.stream
 * is not looked at.
 *
 * Only NCCL carries such operations. HVD_ERR_UNSUPPORTED on all members where a tensor is in host memory,
 * where NCCL has no such type and reduction (as for HVD_ADASUM, HVD_BOOL and HVD_INT16), or where it does not
 * connect their GPUs; the only member of a set needs no NCCL. */
HVD_API enum hvd_status hvd_allreduce_init(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                           const struct hvd_options *options, hvd_persistent *persistentp);
HVD_API enum hvd_status hvd_broadcast_init(const struct hvd_tensor *tensor, int root,
                                           const struct hvd_options *options, hvd_persistent *persistentp);
HVD_API enum hvd_status hvd_reducescatter_init(const struct hvd_tensor *tensors, int count, enum hvd_op op,
                                               const struct hvd_options *options,
                                               hvd_persistent *persistentp);

/* The same for hvd_allgather. The numbers of rows are those at this call, and so is the memory of the
 * results: [results] are complete when it returns, and every start writes results[i].data anew. */
HVD_API enum hvd_status hvd_allgather_init(const struct hvd_tensor *tensors, struct hvd_result *results,
                                           int count, const struct hvd_options *options,
                                           hvd_persistent *persistentp);

/* Start the operation in [stream] (a CUstream or cudaStream_t of the tensors' GPU; NULL: CUDA's default
 * stream): it begins when the stream has done what was put into it before, and what is put into it from now
 * on finds the result. The call returns when all is in the stream; the host does not wait for the GPU. The
 * first start of a process set may wait for the other members, while NCCL connects them for it. One start
 * need not be done before the next. HVD_ERR_STATE in a callback, and after hvd_join until it has returned.
 *
 * All members start their persistent operations, and submit all other operations on GPUs, in the same order;
 * nobody checks it, and GPUs that meet in another order wait for each other (MPI_Start asks for the same). An
 * operation that this rank submitted before is launched first, for which the call waits.
 *
 * While [stream] is captured into a CUDA graph the operation is put into the graph, and runs each time the
 * graph is launched, also several times. hvd does not see these launches. Therefore the call waits until the
 * GPU has done all of hvd's other operations, and from then on until hvd_persistent_free of this one every
 * other operation of this rank on GPUs, hvd_join and hvd_set_add return HVD_ERR_STATE; persistent operations
 * may be started, and operations on host memory go on. The program launches graphs, and starts beside them,
 * in one order by its streams. Destroy graphs before hvd_persistent_free: their launches use the operation's
 * memory. NCCL ends no communicator that a graph holds: one that is left when its process set is removed, or
 * at hvd_shutdown, costs some seconds there, and the communicator stays.
 *
 * When the job has failed, or the process set was removed, returns the cause. If a rank is lost while the GPU
 * works on it the stream goes on, and the result is undefined. A rank that does not start it keeps the
 * streams of the others waiting; for a start that is not in a graph the stall inspector reports that. */
HVD_API enum hvd_status hvd_persistent_start(hvd_persistent persistent, void *stream);

/* Free a persistent operation. Local; may be called in a callback. Starts go on, and the GPU gets the memory
 * back a moment later. HVD_ERR_INVALID if there is no such operation. hvd_shutdown frees those that are left.
 */
HVD_API enum hvd_status hvd_persistent_free(hvd_persistent persistent);

/* ---- Memory --------------------------------------------------------------------------------- */

/* Allocate [bytes] of zeroed memory for tensors, on pages of its own, and set *memoryp to it; NULL for 0
 * bytes. The other ranks of this node can reach it too. An allreduce between ranks of one node copies nothing
 * if the inputs and outputs of all members are in such memory. In every other operation it is ordinary
 * memory: each rank is free to use it or not, and results have the same bits. Several tensors may share one
 * allocation. (The purpose is that of MPI_Alloc_mem and ncclMemAlloc.)
 *
 * The memory stays valid until hvd_free, also after hvd_shutdown. Until hvd_shutdown has returned, other
 * ranks may still write to outputs of operations that failed. A child of fork shares the memory with its
 * parent; it does not get a copy. HVD_ERR_STATE before hvd_init. */
HVD_API enum hvd_status hvd_alloc(int64_t bytes, void **memoryp);

/* Allocate [bytes] of memory for tensors on GPU [device] (CUDA's number in this process), which becomes this
 * rank's, and set *memoryp to it; NULL for 0 bytes. It is not zeroed. NCCL gives and registers it: in an
 * allreduce, a broadcast in place and a reducescatter to other memory it needs no copies of its own if all
 * members have input and output in one such allocation, at the same offset in it. So that they do, ranks
 * allocate in the same order and equally much. Tensors of one such operation that lie end to end, in the
 * order of the group, are not packed. In all other cases it is ordinary memory of the GPU: each rank is free
 * to use it or not. Several tensors may share one allocation, which takes whole pages of the GPU, mostly of 2
 * MiB.
 *
 * The memory stays valid until hvd_free, also after hvd_shutdown; in later jobs it is ordinary memory, and so
 * it is where NCCL is missing or older than 2.19. HVD_ERR_STATE before hvd_init; HVD_ERR_INVALID where
 * earlier tensors of this rank are on another GPU. */
HVD_API enum hvd_status hvd_alloc_on(int device, int64_t bytes, void **memoryp);

/* Free memory from hvd_alloc or hvd_alloc_on. No operation that uses it may be in flight. Does nothing for
 * NULL. HVD_ERR_INVALID for a pointer that is not from these or was freed already. May be called after
 * hvd_shutdown. A GPU gets its memory back a moment later, when NCCL has given it up. */
HVD_API enum hvd_status hvd_free(void *memory);

/* ---- Stopping, observing -------------------------------------------------------------------- */

/* Ask the job to stop: the next hvd_should_stop tells all ranks. May be called from signal handlers, from any
 * thread, and before hvd_init. */
HVD_API void hvd_request_stop(void);

/* Should the program stop? Collective over all ranks. *stopp becomes 1 on all ranks if any rank has called
 * hvd_request_stop or has received the signal of the option stop-signal, otherwise 0 on all ranks. */
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

/* How many of [rows] rows member [member] of [size] gets in a reducescatter. */
static inline int64_t hvd_share_rows(int64_t rows, int member, int size)
{
    return rows / size + (member < rows % size);
}

/* The sentence that explains the last error a call returned to this thread; "" if there was none. Valid until
 * this thread's next call of hvd. */
HVD_API const char *hvd_error_text(void);

/* Set what hvd_error_text returns on this thread to a copy of [sentence], and return [status]. For libraries
 * that are built on hvd and report errors in the same way. */
HVD_API enum hvd_status hvd_error_set(enum hvd_status status, const char *sentence);

/* What a status means, in a few words. Never NULL. */
HVD_API const char *hvd_status_text(enum hvd_status status);

/* The version of the library, such as "0.1.0". */
HVD_API const char *hvd_version(void);

#ifdef __cplusplus
}
#endif
#endif
