/* gpu.c: the GPU of this rank, which the first tensor on it opens, until the end of the job. */
#include "config.h"

#include "flow/gpu.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptors.h"
#include "cuda/pointer_device.h"
#include "flow/gpu_state.h"

int gpu_create(struct gpu **gpup, const struct backend_env *env, struct hvd_error *err)
{
    struct gpu *gpu = calloc(1, sizeof(*gpu));
    if (gpu == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*gpu));
    gpu->config = env->config;
    gpu->job = env->job;
    gpu->log = env->log;
    gpu->host_memory = env->host_memory;
    gpu->epoll_fd = env->epoll_fd;
    gpu->notify_fd = -1;
    pthread_mutex_init(&gpu->lock, NULL);
    gpu_memory_registry_init(&gpu->registry);
    *gpup = gpu;
    return HVD_OK;
}

/* ---- The driver and the device ---------------------------------------------------------------- */

static int first_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    *(unsigned long long *)arg = info->dlpi_adds;
    return 1;
}

/* Has the program loaded CUDA's driver? Looked for only when any library was loaded since the last time. A
 * thread that finds that another one looks waits for what that one sees. */
static bool uses_cuda(struct gpu *gpu)
{
    unsigned long long loads = 0;
    if (atomic_load_explicit(&gpu->driver_loaded, memory_order_acquire))
        return true;
    dl_iterate_phdr(first_object, &loads);
    pthread_mutex_lock(&gpu->lock);
    if (loads != gpu->loads && cuda_driver_loaded(NULL))
        atomic_store_explicit(&gpu->driver_loaded, true, memory_order_release);
    gpu->loads = loads;
    pthread_mutex_unlock(&gpu->lock);
    return atomic_load_explicit(&gpu->driver_loaded, memory_order_acquire);
}

/* A driver that does not start is not asked again. */
static int need_driver_locked(struct gpu *gpu, struct hvd_error *err)
{
    if (gpu->driver == NULL && !gpu->driver_fails)
        gpu->driver_fails = cuda_driver_open(NULL, &gpu->driver, &gpu->why) != HVD_OK;
    return gpu->driver_fails ? error_set(err, HVD_ERR_UNSUPPORTED, "%s", gpu->why.text) : HVD_OK;
}

static int need_driver(struct gpu *gpu, struct hvd_error *err)
{
    if (atomic_load_explicit(&gpu->opened, memory_order_acquire))
        return HVD_OK;
    pthread_mutex_lock(&gpu->lock);
    int rc = need_driver_locked(gpu, err);
    pthread_mutex_unlock(&gpu->lock);
    return rc;
}

/* Placement chose this rank's cores and network cards by one GPU: is it another that the program uses? One
 * that was given several may use any. */
static void compare_with_placement(const struct gpu *gpu, int ordinal)
{
    char own[12];
    const char *placed = getenv("HVD_LOCAL_DEVICE");
    const char *ids = getenv("HVD_GPU_PCI");
    snprintf(own, sizeof(own), "%d", ordinal);
    if (placed == NULL || strcmp(placed, own) == 0 || (ids != NULL && strchr(ids, ',') != NULL))
        return;
    log_write(gpu->log, LOG_WARN, "gpu",
              "tensors of this rank are on GPU %d, but its cores and network cards are those near GPU %.20s; "
              "choose the device of the variable HVD_LOCAL_DEVICE, in Python by "
              "torch.cuda.set_device(int(os.environ[\"HVD_LOCAL_DEVICE\"]))",
              ordinal, placed);
}

static void close_device(struct gpu *gpu)
{
    gpu_close_queues(gpu);
    cuda_device_close(&gpu->device);
}

static int open_locked(struct gpu *gpu, int ordinal, struct hvd_error *err)
{
    int mode = 0;
    int rc = need_driver_locked(gpu, err);
    if (rc == HVD_OK)
        rc = cuda_device_open(gpu->driver, ordinal, &gpu->device, err);
    if (rc != HVD_OK)
        return rc;
    rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc == HVD_OK) {
        rc = gpu_open_queues(gpu, err);
        cuda_device_leave(&gpu->device, mode);
    }
    if (rc != HVD_OK) {
        close_device(gpu);
        return rc;
    }
    log_write(gpu->log, LOG_INFO, "gpu", "tensors of this rank are on GPU %d", ordinal);
    compare_with_placement(gpu, ordinal);
    gpu_open_nccl(gpu);
    atomic_store_explicit(&gpu->opened, true, memory_order_release);
    return HVD_OK;
}

int gpu_need_device(struct gpu *gpu, int ordinal, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (!atomic_load_explicit(&gpu->opened, memory_order_acquire)) {
        pthread_mutex_lock(&gpu->lock);
        if (!atomic_load_explicit(&gpu->opened, memory_order_acquire))
            rc = open_locked(gpu, ordinal, err);
        pthread_mutex_unlock(&gpu->lock);
    }
    if (rc == HVD_OK && gpu->device.ordinal != ordinal)
        rc = error_set(err, HVD_ERR_INVALID,
                       "it is on GPU %d, but earlier tensors of this rank are on GPU %d; start one rank for "
                       "each GPU",
                       ordinal, gpu->device.ordinal);
    return rc;
}

const struct cuda_device *gpu_device(const struct gpu *gpu)
{
    return &gpu->device;
}

int gpu_enter(struct gpu *gpu, int *modep, struct hvd_error *err)
{
    return cuda_device_enter(&gpu->device, modep, err);
}

void gpu_leave(struct gpu *gpu, int mode)
{
    cuda_device_leave(&gpu->device, mode);
}

/* ---- Whose memory ----------------------------------------------------------------------------- */

/* Ask the driver. */
static int ask_place(struct gpu *gpu, const struct hvd_tensor *tensor, int *ordinalp, struct hvd_error *err)
{
    const void *first = tensor->input != NULL ? tensor->input : tensor->output;
    const void *second = tensor->output != NULL ? tensor->output : first;
    *ordinalp = -1;
    if (first == NULL || !uses_cuda(gpu) || need_driver(gpu, NULL) != HVD_OK)
        return HVD_OK;
    int rc = pointer_device(gpu->driver, first, ordinalp, err);
    int other = *ordinalp;
    if (rc == HVD_OK && second != first)
        rc = pointer_device(gpu->driver, second, &other, err);
    if (rc != HVD_OK || other == *ordinalp)
        return rc;
    return error_set(
        err, HVD_ERR_INVALID, "input is %s and output is %s; give both on one GPU, or both in host memory",
        *ordinalp < 0 ? "in host memory" : "on a GPU", other < 0 ? "in host memory" : "on a GPU");
}

int gpu_find(struct gpu *gpu, const struct hvd_tensor *tensor, bool *on_devicep, struct hvd_error *err)
{
    int ordinal = tensor->device;
    bool is_known = tensor->memory == HVD_MEMORY_DEVICE || tensor->memory == HVD_MEMORY_MANAGED;
    *on_devicep = false;
    if (is_known ? ordinal < 0 : tensor->memory != HVD_MEMORY_ANY)
        return HVD_OK;
    if (!is_known) {
        int rc = ask_place(gpu, tensor, &ordinal, err);
        if (rc != HVD_OK || ordinal < 0)
            return rc;
    }
    *on_devicep = true;
    return gpu_need_device(gpu, ordinal, err);
}

struct gpu_memory_registry *gpu_memory_registry(struct gpu *gpu)
{
    return &gpu->registry;
}

/* ---- Ends ------------------------------------------------------------------------------------- */

void gpu_after_fork(struct gpu *gpu)
{
    descriptors_close(&gpu->notify_fd);
    pthread_mutex_init(&gpu->registry.lock, NULL);
}

static void free_memory(struct gpu *gpu)
{
    int mode = 0;
    if (cuda_device_enter(&gpu->device, &mode, NULL) != HVD_OK)
        return;
    pack_kernels_unload(gpu->kernels);
    gpu_free_blocks(gpu);
    gpu_free_events(gpu, true);
    cuda_device_leave(&gpu->device, mode);
}

/* Where the GPU is still at work after a while, it keeps what it has: CUDA would wait for it, perhaps for
 * ever, and its callbacks would write into a descriptor that is another file's by then. */
static void free_on_device(struct gpu *gpu)
{
    if (!gpu_settle(gpu)) {
        log_write(gpu->log, LOG_WARN, "gpu",
                  "GPU %d is still at work on what hvd gave it: its memory and streams are not freed before "
                  "this process ends",
                  gpu->device.ordinal);
        return;
    }
    free_memory(gpu);
    close_device(gpu);
}

void gpu_destroy(struct gpu *gpu)
{
    if (gpu == NULL)
        return;
    gpu_memory_registry_fini(&gpu->registry);
    if (atomic_load(&gpu->opened))
        free_on_device(gpu);
    gpu_free_events(gpu, false);
    nccl_close(gpu->nccl);
    cuda_driver_close(gpu->driver);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}
