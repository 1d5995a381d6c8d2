/* persistent.h: persistent operations: collectives of tensors on GPUs that all members have agreed on once,
 * and then start as often as they like, in a stream of the program, also while that is captured into a CUDA
 * graph.
 *
 * One is made as any other operation, up to where its batches are laid out: then it keeps them, with memory
 * of its own. A start puts them into the stream. The driver does that, since it alone uses communicators. It
 * keeps one order of all that NCCL gets: operations that this rank has submitted before are launched first.
 * The stream waits for the GPU's own queue, and that queue for the stream.
 *
 * The driver does not see when a graph is launched. From the first start in a capture until the operation is
 * freed nothing else goes to NCCL: submissions are refused. */
#ifndef FLOW_BATCH_PERSISTENT_H
#define FLOW_BATCH_PERSISTENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/status.h"
#include "flow/finish.h"

struct batch;
struct batch_queue;
struct persistent;
struct process_set;

/* One start, for which its caller waits. */
struct persistent_start {
    struct persistent *persistent;
    void *stream;
    bool captured;        /* the stream is being captured */
    struct batch *launch; /* once it has begun: what stands for it in batch_queue.launched */
    struct batch *batch;  /* the same: the one that NCCL is given */
    int status;
    struct hvd_error err;
    _Atomic bool done; /* the last that the driver writes */
    STAILQ_ENTRY(persistent_start) link;
};

/* All persistent operations of the job. */
struct persistents {
    pthread_mutex_t lock; /* of all but what is atomic or the driver's */
    LIST_HEAD(persistent_list, persistent) list;
    STAILQ_HEAD(persistent_starts, persistent_start) starts; /* the first one runs */
    hvd_persistent last;
    _Atomic int captured;   /* those that are in graphs */
    _Atomic bool any_start; /* starts is not empty */
    _Atomic bool any_freed; /* list may have one that was freed */
    /* the driver's */
    bool is_launching;     /* a start is in NCCL's hands */
    int64_t watched_at_us; /* when NCCL was asked last about what graphs do */
};

void persistents_init(struct persistents *persistents);

/* ---- Any thread ---- */

/* A new one that has nothing to start yet, of [desc], for request->persistent; NULL where memory is out. */
struct persistent *persistent_create(struct persistents *persistents, const struct desc *desc);

/* All ranks have agreed on it: the program knows it from now on by the number that is returned. */
hvd_persistent persistent_publish(struct persistents *persistents, struct persistent *persistent);

/* The ranks have not agreed: the driver frees it. */
void persistent_discard(struct persistents *persistents, struct persistent *persistent);

const struct desc *persistent_desc(const struct persistent *persistent);

/* Let the driver start number [number] in [stream]. On success the driver owns [start] until it is done. */
int persistents_start(struct batch_queue *batch_queue, hvd_persistent number, void *stream,
                      struct persistent_start *start, struct hvd_error *err);

/* It is not started any more; the driver frees it when the GPU has done its starts. */
int persistents_free(struct batch_queue *batch_queue, hvd_persistent number, struct hvd_error *err);

/* HVD_ERR_STATE while one is in a graph: what [desc] describes must not be given to NCCL. */
int persistents_check(struct persistents *persistents, const struct desc *desc, struct hvd_error *err);

/* ---- The driver only ---- */

/* It owns [batch] from now on, with its companions. */
void persistent_keep(struct persistent *persistent, struct batch *batch);

/* Take the first start further, and free what was freed. [*movedp] becomes true where anything was done. */
int persistents_run(struct batch_queue *batch_queue, bool *movedp, struct hvd_error *err);

/* The GPU has done the start [launch], or it was given up. */
void persistents_started(struct persistents *persistents, struct batch *launch);

/* Does NCCL read or write [memory] in one of them? */
struct gpu_memory;
bool persistents_use(struct persistents *persistents, const struct gpu_memory *memory);

/* When persistents_run has something to do though nothing wakes the driver: clock_us time, or INT64_MAX. */
int64_t persistents_deadline(const struct persistents *persistents);

/* The process set [team] ends (NULL: the whole job), so that none of its operations can be started any more.
 * Ends starts that wait. */
void persistents_end(struct batch_queue *batch_queue, const struct process_set *team, int status,
                     const char *reason);

/* Free all, when the GPU is idle and no other thread is in a call. */
void persistents_fini(struct persistents *persistents);

#endif
