/* gpu_tensor.h: what programs of tests with tensors on GPUs share. */
#ifndef TESTS_RUN_GPU_TENSOR_H
#define TESTS_RUN_GPU_TENSOR_H

#include "gpu_memory.h"
#include "ranks.h"

#define COUNT 1000

static inline struct hvd_tensor on_gpu(const char *name, float *memory, int64_t count)
{
    struct hvd_tensor tensor = hvd_vector(name, memory, count, HVD_FLOAT32);
    tensor.memory = HVD_MEMORY_DEVICE;
    tensor.device = gpu_memory_ordinal();
    return tensor;
}

/* End as hvd_shutdown leaves it: it gives back what NCCL and CUDA had, also when the job has failed. */
static inline void leave_failed(void)
{
    hvd_shutdown();
    exit(3);
}

/* main of such a program: the GPU is open before hvd is. */
static inline int gpu_main(int argc, char **argv, const struct ranks_case *cases, size_t count)
{
    return gpu_memory_open(gpu_memory_ordinal()) ? ranks_main(argc, argv, cases, count) : 2;
}

#endif
