/* gpu.c: the GPU that hvdbench measures: a stream, and the device's own clock. */
#include "tools/hvdbench/gpu.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"

#define HOLD_US INT64_C(3000000) /* longer, and the host waits for the stream that waits for it */

int bench_gpu_check(const struct bench_gpu *gpu, CUresult result, const char *what, struct hvd_error *err)
{
    return result == CUDA_SUCCESS ? HVD_OK : cuda_error(gpu->driver, result, err, "%s", what);
}

static int create_clock(struct bench_gpu *gpu, struct hvd_error *err)
{
    const struct cuda_driver *driver = gpu->driver;
    int rc = bench_gpu_check(gpu, driver->cuStreamCreateWithPriority(&gpu->stream, CU_STREAM_NON_BLOCKING, 0),
                             "no stream", err);
    if (rc == HVD_OK)
        rc = bench_gpu_check(gpu, driver->cuEventCreate(&gpu->begin, CU_EVENT_DEFAULT), "no event", err);
    if (rc == HVD_OK)
        rc = bench_gpu_check(gpu, driver->cuEventCreate(&gpu->end, CU_EVENT_DEFAULT), "no event", err);
    return rc;
}

/* Ranks share GPUs if there are fewer. */
static int choose(const struct cuda_driver *driver, int rank, int *ordinal, struct hvd_error *err)
{
    int count = 0;
    CUresult result = driver->cuDeviceGetCount(&count);
    if (result == CUDA_SUCCESS && count == 0)
        return error_set(err, HVD_ERR_UNSUPPORTED, "there is no GPU");
    *ordinal = count > 0 ? rank % count : 0;
    return result == CUDA_SUCCESS ? HVD_OK : cuda_error(driver, result, err, "no GPU");
}

int bench_gpu_open(struct bench_gpu *gpu, int rank, struct hvd_error *err)
{
    CUdevice number = 0;
    int ordinal = 0;
    int rc = cuda_driver_open(NULL, &gpu->driver, err);
    if (rc == HVD_OK)
        rc = choose(gpu->driver, rank, &ordinal, err);
    if (rc == HVD_OK)
        rc = cuda_device_open(gpu->driver, ordinal, &gpu->device, err);
    if (rc == HVD_OK)
        rc = cuda_device_enter(&gpu->device, &gpu->mode, err);
    if (rc != HVD_OK)
        return rc;
    gpu->entered = true;
    rc = create_clock(gpu, err);
    if (rc == HVD_OK)
        rc = pack_kernels_load(&gpu->device, &gpu->kernels, err);
    if (rc == HVD_OK)
        rc = bench_gpu_check(gpu, gpu->driver->cuDeviceGet(&number, ordinal), "no GPU", err);
    if (rc == HVD_OK)
        rc = bench_gpu_check(gpu, gpu->driver->cuDeviceGetName(gpu->name, sizeof(gpu->name), number),
                             "a GPU without a name", err);
    return rc;
}

void bench_gpu_close(struct bench_gpu *gpu)
{
    const struct cuda_driver *driver = gpu->driver;
    pack_kernels_unload(gpu->kernels);
    if (gpu->begin != NULL)
        driver->cuEventDestroy(gpu->begin);
    if (gpu->end != NULL)
        driver->cuEventDestroy(gpu->end);
    if (gpu->stream != NULL)
        driver->cuStreamDestroy(gpu->stream);
    if (gpu->entered)
        cuda_device_leave(&gpu->device, gpu->mode);
    cuda_device_close(&gpu->device);
    cuda_driver_close(gpu->driver);
}

bool bench_gpu_is_double(const struct bench_gpu *gpu)
{
    return strncmp(gpu->name, "double", 6) == 0;
}

/* ---- Time --------------------------------------------------------------------------------------- */

int bench_gpu_begin(const struct bench_gpu *gpu, struct hvd_error *err)
{
    return bench_gpu_check(gpu, gpu->driver->cuEventRecord(gpu->begin, gpu->stream), "no time", err);
}

int bench_gpu_end(const struct bench_gpu *gpu, struct hvd_error *err)
{
    return bench_gpu_check(gpu, gpu->driver->cuEventRecord(gpu->end, gpu->stream), "no time", err);
}

int bench_gpu_elapsed(const struct bench_gpu *gpu, double *us, struct hvd_error *err)
{
    float ms = 0;
    int rc = bench_gpu_check(gpu, gpu->driver->cuEventSynchronize(gpu->end), "what was measured failed", err);
    if (rc == HVD_OK)
        rc = bench_gpu_check(gpu, gpu->driver->cuEventElapsedTime(&ms, gpu->begin, gpu->end), "no time", err);
    *us = (double)ms * 1000;
    return rc;
}

static void wait_for_release(void *arg)
{
    const struct timespec pause = {.tv_nsec = 1000};
    struct bench_gpu *gpu = arg;
    int64_t deadline_us = clock_us() + HOLD_US;
    while (atomic_load(&gpu->held) && clock_us() < deadline_us)
        nanosleep(&pause, NULL);
}

int bench_gpu_hold(struct bench_gpu *gpu, struct hvd_error *err)
{
    atomic_store(&gpu->held, true);
    return bench_gpu_check(gpu, gpu->driver->cuLaunchHostFunc(gpu->stream, wait_for_release, gpu),
                           "the stream does not stand still", err);
}

void bench_gpu_release(struct bench_gpu *gpu)
{
    atomic_store(&gpu->held, false);
}
