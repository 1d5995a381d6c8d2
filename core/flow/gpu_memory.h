/* gpu_memory.h: memory of hvd_alloc_on: on this rank's GPU, and numbered alike on all ranks. NCCL registers
 * it, so that the driver frees it. Without CUDA gpu_none.c takes the place of gpu_memory.c, and says so. */
#ifndef FLOW_GPU_MEMORY_H
#define FLOW_GPU_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct gpu;
struct gpu_memory;

/* ---- Any thread ---- */

/* At least [bytes], more than 0, of memory of GPU [ordinal], which becomes this rank's. It outlives the job.
 */
int gpu_memory_create(struct gpu *gpu, int ordinal, int64_t bytes, struct gpu_memory **memoryp,
                      struct hvd_error *err);
void *gpu_memory_address(const struct gpu_memory *memory);

/* No operation uses it. In the job that gave it, the driver frees it when NCCL has given it up, soon. */
void gpu_memory_free(struct gpu_memory *memory);

/* Where a tensor of [bytes] is whose input and output are in one memory that NCCL may register: a hash of the
 * memory's number and size, and of both offsets in it. 0: it is elsewhere. */
uint64_t gpu_memory_offsets(struct gpu *gpu, const void *input, const void *output, int64_t bytes);

/* ---- The driver only ---- */

/* What memory [address] is in; NULL: in none of this job's. */
const struct gpu_memory *gpu_memory_find(struct gpu *gpu, const void *address);

bool gpu_memory_contains(const struct gpu_memory *memory, const void *address);

/* What NCCL registers. */
void *gpu_memory_bytes(const struct gpu_memory *memory, int64_t *bytesp);

/* One that was freed, and is to be destroyed when NCCL has given it up; NULL: there is none. */
struct gpu_memory *gpu_memory_freed(struct gpu *gpu);
void gpu_memory_destroy(struct gpu_memory *memory);

#endif
