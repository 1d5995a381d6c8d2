/* gpu.h: the GPU that hvdbench measures: a stream, and the device's own clock. Needs CUDA's header. */
#ifndef TOOLS_HVDBENCH_GPU_H
#define TOOLS_HVDBENCH_GPU_H

#include <stdatomic.h>

#include "cuda/driver_calls.h"
#include "cuda/pack.h"

/* Zero it first. From open to close the device's context is the thread's current one. */
struct bench_gpu {
    struct cuda_driver *driver;
    struct cuda_device device;
    int mode;
    bool entered;
    char name[100];
    CUstream stream;
    CUevent begin, end;
    struct pack_kernels *kernels;
    _Atomic bool held; /* by bench_gpu_hold */
};

int bench_gpu_open(struct bench_gpu *gpu, int rank, struct hvd_error *err); /* the GPU of this number */
void bench_gpu_close(struct bench_gpu *gpu); /* also after an open that failed */

/* HVD_OK, or CUDA's error and [what] it was about. */
int bench_gpu_check(const struct bench_gpu *gpu, CUresult result, const char *what, struct hvd_error *err);

/* Is it the stand-in of the tests? Its figures would be taken for those of a GPU. */
bool bench_gpu_is_double(const struct bench_gpu *gpu);

/* Time what is put into the stream between begin and end, in us by the device's clock; elapsed waits for the
 * device. */
int bench_gpu_begin(const struct bench_gpu *gpu, struct hvd_error *err);
int bench_gpu_end(const struct bench_gpu *gpu, struct hvd_error *err);
int bench_gpu_elapsed(const struct bench_gpu *gpu, double *us, struct hvd_error *err);

/* The stream stands still from here, for at most a few seconds, until it is released: work that is put into
 * it meanwhile then runs at the device's pace and not at the host's. */
int bench_gpu_hold(struct bench_gpu *gpu, struct hvd_error *err);
void bench_gpu_release(struct bench_gpu *gpu);

#endif
