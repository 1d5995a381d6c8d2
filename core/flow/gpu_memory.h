/* gpu_memory.h: memory from hvd_alloc_on, on this rank's GPU, numbered in the same way on all ranks. NCCL
 * registers it, so only the driver frees it. */
#ifndef FLOW_GPU_MEMORY_H
#define FLOW_GPU_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct gpu;
struct gpu_memory;

/* ---- Any thread ---- */

/* Allocate at least [bytes] (> 0) on GPU [ordinal], which becomes this rank's. The memory outlives the job.
 */
int gpu_memory_create(struct gpu *gpu, int ordinal, int64_t bytes, struct gpu_memory **memoryp,
                      struct hvd_error *err);
void *gpu_memory_address(const struct gpu_memory *memory);

/* The caller guarantees that no operation uses the memory. During its own job, the driver frees it soon,
 * after NCCL has deregistered it. */
void gpu_memory_free(struct gpu_memory *memory);

/* The offsets of a tensor of [bytes]: a hash of the number and size of its memory and of both offsets in it,
 * if input and output are in one memory that NCCL may register; otherwise 0. */
uint64_t gpu_memory_offsets(struct gpu *gpu, const void *input, const void *output, int64_t bytes);

/* ---- The driver only ---- */

/* The memory of this job that contains [address], or NULL. */
const struct gpu_memory *gpu_memory_find(struct gpu *gpu, const void *address);

/* The bytes that NCCL registers. */
void *gpu_memory_bytes(const struct gpu_memory *memory, int64_t *bytesp);

/* A freed memory that must be destroyed after NCCL has deregistered it, or NULL. */
struct gpu_memory *gpu_memory_freed(struct gpu *gpu);
void gpu_memory_destroy(struct gpu_memory *memory);

#endif
