/* gpu_memory_registry.h: all memory of hvd_alloc_on that a job gave: what gpu.c and gpu_memory.c share. */
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
    uint64_t count;         /* that were asked for */
    _Atomic bool any;       /* there may be one in the list */
    _Atomic bool any_freed; /* and that was freed */
};

void gpu_memory_registry_init(struct gpu_memory_registry *registry);

/* What was not freed stays the program's. No communicator has any of it. */
void gpu_memory_registry_fini(struct gpu_memory_registry *registry);

struct gpu_memory_registry *gpu_memory_registry(struct gpu *gpu);

#endif
