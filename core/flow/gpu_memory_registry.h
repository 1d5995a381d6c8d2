/* gpu_memory_registry.h: the memory that a job allocated by hvd_alloc_on, for gpu.c and gpu_memory.c. */
#ifndef FLOW_GPU_MEMORY_REGISTRY_H
#define FLOW_GPU_MEMORY_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct gpu;
struct gpu_memory;

TAILQ_HEAD(gpu_memory_list, gpu_memory);

struct gpu_memory_registry {
    pthread_mutex_t lock; /* of the list and the count */
    struct gpu_memory_list list;
    uint64_t count;         /* of allocations so far */
    _Atomic bool any;       /* the list may have entries */
    _Atomic bool any_freed; /* and some of them were freed */
};

void gpu_memory_registry_init(struct gpu_memory_registry *registry);

/* Memory that was not freed remains the program's. No communicator has registered any of it. */
void gpu_memory_registry_fini(struct gpu_memory_registry *registry);

struct gpu_memory_registry *gpu_memory_registry(struct gpu *gpu);

#endif
