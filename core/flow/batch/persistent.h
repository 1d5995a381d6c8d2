/* persistent.h: persistent operations: collectives of GPU tensors that all members agree on once. The program
 * then starts them any number of times in a stream of its own, which it may be capturing into a CUDA graph.
 *
 * A persistent operation is created like any other operation until its batches are laid out. It then keeps
 * these batches, with memory of its own, and a start launches them in the stream. The driver launches them,
 * because only the driver uses communicators. It keeps one order for all NCCL work of the rank: it first
 * launches the operations that this rank submitted before the start. The stream waits for the
 * GPU's queue for batches, and that queue waits for the stream.
 *
 * The driver cannot see when the program launches a graph. From the first captured start until the operation
 * is freed, hvd launches no other NCCL work: submissions of GPU tensors are refused. */
#ifndef FLOW_BATCH_PERSISTENT_H
#define FLOW_BATCH_PERSISTENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "flow/batch/batch_queue.h"

struct persistent;

/* One start, for which its caller waits. */
struct persistent_start {
    struct persistent *persistent;
    void *stream;
    bool captured;        /* the stream is being captured */
    struct batch *launch; /* once it has begun: its entry in batch_queue.launched */
    struct batch *batch;  /* once it has begun: the batch that is being launched */
    int status;
    struct hvd_error err;
    _Atomic bool done; /* the driver writes it last */
    STAILQ_ENTRY(persistent_start) link;
};

/* All persistent operations of the job. */
struct persistents {
    struct batch_queue *batch_queue;
    struct finish *finish;
    struct gpu *gpu;
    pthread_mutex_t lock; /* of all fields but atomic ones and those of the driver */
    LIST_HEAD(persistent_list, persistent) list;
    STAILQ_HEAD(persistent_starts, persistent_start) starts; /* the first one runs */
    hvd_persistent last;
    _Atomic int captured;   /* how many are in graphs */
    _Atomic bool any_start; /* starts is not empty */
    _Atomic bool any_freed; /* list may contain one that was freed */
    /* the driver's */
    bool is_launching;     /* NCCL has not returned from a start yet */
    int64_t watched_at_us; /* when NCCL was last asked for errors of graphs */
};

/* Before the call, set batch_queue, finish and gpu, which are borrowed, and zero the other fields. */
void persistents_init(struct persistents *persistents);

/* ---- Any thread ---- */

/* Create an operation of [desc] for request->persistent; it has no batches yet. NULL if there is not enough
 * memory. */
struct persistent *persistent_create(struct persistents *persistents, const struct desc *desc);

/* All ranks have agreed on it. Returns the number by which the program refers to it from now on. */
hvd_persistent persistent_publish(struct persistents *persistents, struct persistent *persistent);

/* The ranks have not agreed: the driver frees it. */
void persistent_discard(struct persistents *persistents, struct persistent *persistent);

/* Let the driver start number [number] in [stream]. On success the driver owns [start] until it is done. */
int persistents_start(struct persistents *persistents, hvd_persistent number, void *stream,
                      struct persistent_start *start, struct hvd_error *err);

/* The program does not start it again; the driver frees it when the GPU has completed its starts. */
int persistents_free(struct persistents *persistents, hvd_persistent number, struct hvd_error *err);

/* HVD_ERR_STATE if an operation of [desc] must not be launched by NCCL now, because a persistent operation is
 * in a graph. */
int persistents_check(struct persistents *persistents, const struct desc *desc, struct hvd_error *err);

/* ---- The driver only ---- */

/* Give [batch] and its companions to the operation, which owns them from now on. */
void persistent_keep(struct persistent *persistent, struct batch *batch);

/* Advance the first start, and release the operations that the program has freed. Sets [*movedp] to true if
 * anything was done. */
int persistents_run(struct persistents *persistents, bool *movedp, struct hvd_error *err);

/* The GPU has completed the start [launch], or it was abandoned. */
void persistents_started(struct persistents *persistents, struct batch *launch);

/* Does a persistent operation read or write [memory]? */
bool persistents_use(struct persistents *persistents, const struct gpu_memory *memory);

/* When the driver must call persistents_run next even if nothing wakes it: clock_us time, or INT64_MAX. */
int64_t persistents_deadline(const struct persistents *persistents);

/* The process set [set] (NULL: the whole job) ends, so none of its operations can be started any more. Starts
 * that wait fail with [status] and [reason]. */
void persistents_end(struct persistents *persistents, const struct process_set *set, int status,
                     const char *reason);

/* Free everything. The GPU must be idle, and no other thread in a call. */
void persistents_fini(struct persistents *persistents);

#endif
