/* gpu_tensors.h: tensors on a GPU with known numbers, which are checked after an operation. Needs CUDA's
 * header. */
#ifndef TOOLS_HVDBENCH_GPU_TENSORS_H
#define TOOLS_HVDBENCH_GPU_TENSORS_H

#include "tools/hvdbench/gpu.h"
#include "tools/hvdbench/job.h"

/* The expected outputs. */
enum gpu_result { GPU_SUM, GPU_AVERAGE, GPU_OF_RANK_0 };

/* [count] tensors of [elements] of 4 bytes. With two [types] every second one is int32, otherwise all are
 * float32. Inputs lie in one piece of memory and outputs in another, each tensor aligned as by frameworks. */
struct gpu_tensors {
    const struct bench *bench;
    const struct bench_gpu *gpu;
    int64_t count, elements, types;
    bool alloc; /* in memory of hvd_alloc_on */
    CUdeviceptr inputs, outputs;
    struct hvd_tensor *tensors;
    char (*names)[32];
};

/* Allocate what the first fields say. Call fini in any case. */
int gpu_tensors_init(struct gpu_tensors *tensors, struct hvd_error *err);
void gpu_tensors_fini(struct gpu_tensors *tensors);

/* Bytes from one tensor to the next; of all tensors; and of all without gaps. */
int64_t gpu_tensors_stride(const struct gpu_tensors *tensors);
int64_t gpu_tensors_extent(const struct gpu_tensors *tensors);
int64_t gpu_tensors_bytes(const struct gpu_tensors *tensors);

/* How many of the tensors have [dtype]. */
int64_t gpu_tensors_of(const struct gpu_tensors *tensors, enum hvd_dtype dtype);

/* Write this rank's numbers to the inputs. */
int gpu_tensors_fill(const struct gpu_tensors *tensors, struct hvd_error *err);

/* Are the outputs [result]? */
int gpu_tensors_check(const struct gpu_tensors *tensors, enum gpu_result result, struct hvd_error *err);

/* The number of the GPU that the launcher chose for this rank, or else the rank's number on its node. */
int gpu_of_rank(void);

#endif
