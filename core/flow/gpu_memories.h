/* gpu_memories.h: all memory of hvd_alloc_on that a job gave: what gpu.c and gpu_memory.c share. */
#ifndef FLOW_GPU_MEMORIES_H
#define FLOW_GPU_MEMORIES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct gpu;
struct gpu_memory;

TAILQ_HEAD(gpu_memory_list, gpu_memory);

struct gpu_memories {
    pthread_mutex_t lock; /* of the list and the count */
    struct gpu_memory_list list;
    uint64_t count;         /* that were asked for */
    _Atomic bool any;       /* there may be one in the list */
    _Atomic bool any_freed; /* and that was freed */
};

void gpu_memories_init(struct gpu_memories *memories);

/* What was not freed stays the program's. No communicator has any of it. */
void gpu_memories_fini(struct gpu_memories *memories);

struct gpu_memories *gpu_memories(struct gpu *gpu);

#endif
