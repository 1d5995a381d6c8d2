/* allocations.h: memory of hvd_alloc, which lies in this rank's window of shared memory, if there is one; and
 * of hvd_alloc_on. */
#ifndef API_ALLOCATIONS_H
#define API_ALLOCATIONS_H

#include <pthread.h>
#include <sys/queue.h>

#include "flow/loop.h"
#include "node/windows.h"

struct allocation {
    TAILQ_ENTRY(allocation) link;
    char *memory;
    int64_t bytes;             /* whole pages */
    struct gpu_memory *on_gpu; /* where it is memory of a GPU; NULL: it is the host's */
};

TAILQ_HEAD(allocation_list, allocation);

/* All memory of both that is not freed, by address. It outlives the jobs in which it was allocated. */
struct allocations {
    pthread_mutex_t lock;
    struct allocation_list list;
};

#define ALLOCATIONS_INIT(allocations)                                         \
    {                                                                         \
        PTHREAD_MUTEX_INITIALIZER, TAILQ_HEAD_INITIALIZER((allocations).list) \
    }

/* hvd_alloc and hvd_free in a job with [windows]; zeroed: there is no job. */
int allocations_allocate(struct allocations *allocations, const struct windows *windows, int64_t bytes,
                         void **memoryp, struct hvd_error *err);

/* hvd_alloc_on, on this rank's GPU. */
int allocations_allocate_on(struct allocations *allocations, struct gpu *gpu, int device, int64_t bytes,
                            void **memoryp, struct hvd_error *err);

int allocations_free(struct allocations *allocations, const struct windows *windows, void *memory,
                     struct hvd_error *err);

/* The job is over: unmap its windows, except the parts that are still allocated. */
void allocations_unmap_windows(struct allocations *allocations, struct windows *windows);

/* In a forked child: let it read what its parent allocated, and free its own mapping. */
void allocations_after_fork(struct allocations *allocations);

#endif
