/* gpu.c: the GPU of this rank, from the first tensor on it: its memory, its queue, its events. */
#include "config.h"

#include "flow/gpu.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "backend/nccl/nccl.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "cuda/device.h"
#include "cuda/driver_calls.h"
#include "cuda/pointer_device.h"
#include "flow/gpu_memory_registry.h"
#include "flow/host_block.h"

#define SETTLE_US INT64_C(5000000)

struct gpu_event {
    struct gpu *gpu;
    CUevent event;
    _Atomic int holders;
    const struct queue *queue; /* the one of the GPU's in which it is */
    bool notifies;             /* the driver is woken when it comes */
    struct gpu_event *next_free;
};

/* What wakes the driver has a stream of its own, so that it does not hold up the batches; and one for each
 * queue, since events of different queues come in any order. */
struct queue {
    CUstream stream, notify_stream;
};

struct gpu {
    const struct hvd_config *config;
    const struct hvd_job *job;
    const struct hvd_log *log;
    int epoll_fd;
    _Atomic bool driver_loaded; /* by the program */
    _Atomic bool opened;
    pthread_mutex_t lock;     /* of what follows, until it is opened; and of free_events */
    unsigned long long loads; /* of libraries in this process, at the last look for the driver's */
    struct cuda_driver *driver;
    bool driver_fails;
    struct hvd_error why;
    struct cuda_device device;
    struct queue own, stores, messages;
    int notify_fd;
    struct gpu_event *free_events;
    struct nccl *nccl; /* NULL: tensors travel through the host */
    struct nccl_use nccl_use;
    struct gpu_memory_registry registry;
    /* the driver's */
    struct pack_kernels *kernels;
    struct host_memory host_memory;
    struct host_block blocks[GPU_BLOCKS];
    struct host_block_pool message_blocks;
    void *fusion_block; /* NCCL's */
    int64_t fusion_block_bytes;
    bool fusion_block_asked;
    CUdeviceptr device_block;
    int64_t device_block_bytes;
};

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

static int create_streams(struct gpu *gpu, struct hvd_error *err)
{
    const struct cuda_driver *driver = gpu->driver;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    CUstream *const streams[] = {&gpu->own.stream,      &gpu->own.notify_stream,
                                 &gpu->stores.stream,   &gpu->stores.notify_stream,
                                 &gpu->messages.stream, &gpu->messages.notify_stream};
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]) && result == CUDA_SUCCESS; i++)
        result = driver->cuStreamCreateWithPriority(streams[i], CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS)
        return cuda_error(driver, result, err, "no stream on GPU %d", gpu->device.ordinal);
    gpu->notify_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (gpu->notify_fd < 0 ||
        (gpu->epoll_fd >= 0 && epoll_ctl(gpu->epoll_fd, EPOLL_CTL_ADD, gpu->notify_fd, &event) < 0))
        return error_set_errno(err, "cannot make the descriptor by which a GPU wakes hvd");
    return HVD_OK;
}

static void close_queue(const struct cuda_driver *driver, struct queue *queue)
{
    if (queue->stream != NULL)
        driver->cuStreamDestroy(queue->stream);
    if (queue->notify_stream != NULL)
        driver->cuStreamDestroy(queue->notify_stream);
    *queue = (struct queue){NULL, NULL};
}

static void close_device(struct gpu *gpu)
{
    close_queue(gpu->driver, &gpu->own);
    close_queue(gpu->driver, &gpu->stores);
    close_queue(gpu->driver, &gpu->messages);
    descriptors_close(&gpu->notify_fd);
    cuda_device_close(&gpu->device);
}

static bool nccl_is_allowed(const struct hvd_config *config)
{
    bool allowed = config->backends == 0;
    for (int i = 0; option_list_choice(config->backends, i) >= 0; i++)
        allowed |= option_list_choice(config->backends, i) == BACKEND_NCCL;
    return allowed;
}

static void tell_nccl(const struct gpu *gpu, enum log_level level_once)
{
    bool instead = nccl_is_instead(gpu->nccl);
    log_write(gpu->log, instead ? level_once : LOG_INFO, "gpu", "NCCL is %s, %s%s%s", nccl_file(gpu->nccl),
              nccl_origin(gpu->nccl), instead ? "; not used is --hvd-nccl-library=" : "",
              instead ? gpu->config->nccl_library : "");
}

/* Tensors travel through the host where NCCL is missing, which is slow: say so, but once in the job. */
static void open_nccl(struct gpu *gpu)
{
    struct hvd_error why = {""};
    enum log_level level_once = gpu->job->rank == 0 ? LOG_WARN : LOG_INFO;
    if (!nccl_is_allowed(gpu->config))
        return;
    if (nccl_open(gpu->config->nccl_library, gpu->log, &gpu->nccl, &why) == HVD_OK) {
        gpu->nccl_use = nccl_use_on(gpu->nccl, &gpu->device);
        tell_nccl(gpu, level_once);
        return;
    }
    log_write(gpu->log, level_once, "gpu", "tensors on GPUs travel through host memory: %s", why.text);
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
        rc = create_streams(gpu, err);
        cuda_device_leave(&gpu->device, mode);
    }
    if (rc != HVD_OK) {
        close_device(gpu);
        return rc;
    }
    log_write(gpu->log, LOG_INFO, "gpu", "tensors of this rank are on GPU %d", ordinal);
    compare_with_placement(gpu, ordinal);
    open_nccl(gpu);
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

/* ---- Events ----------------------------------------------------------------------------------- */

static struct gpu_event *take_free_event(struct gpu *gpu)
{
    pthread_mutex_lock(&gpu->lock);
    struct gpu_event *event = gpu->free_events;
    if (event != NULL)
        gpu->free_events = event->next_free;
    pthread_mutex_unlock(&gpu->lock);
    return event;
}

static int create_event(struct gpu *gpu, struct gpu_event **eventp, struct hvd_error *err)
{
    struct gpu_event *event = calloc(1, sizeof(*event));
    if (event == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*event));
    CUresult result = gpu->driver->cuEventCreate(&event->event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
        free(event);
        return cuda_error(gpu->driver, result, err, "no event on GPU %d", gpu->device.ordinal);
    }
    event->gpu = gpu;
    *eventp = event;
    return HVD_OK;
}

/* CUDA says IMPLICIT of its default stream, while another one is captured that waits for it. */
static int ask_capture(struct gpu *gpu, void *stream, CUstreamCaptureStatus *statusp, struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    *statusp = CU_STREAM_CAPTURE_STATUS_NONE;
    if (rc != HVD_OK)
        return rc;
    CUresult result = gpu->driver->cuStreamIsCapturing(stream, statusp);
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        *statusp = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    cuda_device_leave(&gpu->device, mode);
    return HVD_OK; /* a stream of another GPU fails where it is used */
}

int gpu_check_stream(struct gpu *gpu, void *stream, struct hvd_error *err)
{
    CUstreamCaptureStatus status;
    int rc = ask_capture(gpu, stream, &status, err);
    if (rc != HVD_OK || status == CU_STREAM_CAPTURE_STATUS_NONE)
        return rc;
    return error_set(
        err, HVD_ERR_STATE,
        "its stream is captured into a graph, which would repeat the operation without the agreement of the "
        "ranks; end the capture before the operation, or make it persistent (hvd_allreduce_init), which may "
        "be captured");
}

int gpu_find_capture(struct gpu *gpu, void *stream, bool *capturedp, struct hvd_error *err)
{
    CUstreamCaptureStatus status;
    int rc = ask_capture(gpu, stream, &status, err);
    *capturedp = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (rc != HVD_OK || status != CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return rc;
    return error_set(
        err, HVD_ERR_STATE,
        "the capture of its stream has failed, or the stream is CUDA's default one while another is "
        "captured; give it a stream of its own, and look for a call that CUDA forbids in captures");
}

int gpu_mark(struct gpu *gpu, void *stream, struct gpu_event **eventp, struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    struct gpu_event *event = take_free_event(gpu);
    if (event == NULL)
        rc = create_event(gpu, &event, err);
    if (rc == HVD_OK) {
        CUresult result = gpu->driver->cuEventRecord(event->event, stream);
        atomic_store(&event->holders, 1);
        event->notifies = false;
        if (result != CUDA_SUCCESS) {
            rc = cuda_error(gpu->driver, result, err, "the stream cannot be marked; is it one of GPU %d?",
                            gpu->device.ordinal);
            gpu_event_release(event);
        }
    }
    cuda_device_leave(&gpu->device, mode);
    if (rc == HVD_OK)
        *eventp = event;
    return rc;
}

static int mark_queue(struct gpu *gpu, const struct queue *queue, struct gpu_event **eventp,
                      struct hvd_error *err)
{
    int rc = gpu_mark(gpu, queue->stream, eventp, err);
    if (rc == HVD_OK)
        (*eventp)->queue = queue;
    return rc;
}

int gpu_mark_own(struct gpu *gpu, struct gpu_event **eventp, struct hvd_error *err)
{
    return mark_queue(gpu, &gpu->own, eventp, err);
}

int gpu_mark_stored(struct gpu *gpu, struct gpu_event **eventp, struct hvd_error *err)
{
    return mark_queue(gpu, &gpu->stores, eventp, err);
}

static int stream_wait(const struct gpu *gpu, void *stream, const struct gpu_event *event,
                       struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    CUresult result = gpu->driver->cuStreamWaitEvent(stream, event->event, 0);
    if (result != CUDA_SUCCESS)
        rc = cuda_error(gpu->driver, result, err, "the stream cannot wait; is it one of GPU %d?",
                        gpu->device.ordinal);
    cuda_device_leave(&gpu->device, mode);
    return rc;
}

int gpu_follow(struct gpu_event *event, void *stream, struct hvd_error *err)
{
    return stream_wait(event->gpu, stream, event, err);
}

int gpu_await(struct gpu *gpu, const struct gpu_event *event, struct hvd_error *err)
{
    return stream_wait(gpu, gpu->own.stream, event, err);
}

struct gpu_event *gpu_event_hold(struct gpu_event *event)
{
    atomic_fetch_add_explicit(&event->holders, 1, memory_order_relaxed);
    return event;
}

void gpu_event_release(struct gpu_event *event)
{
    if (event == NULL || atomic_fetch_sub_explicit(&event->holders, 1, memory_order_acq_rel) > 1)
        return;
    struct gpu *gpu = event->gpu;
    pthread_mutex_lock(&gpu->lock);
    event->next_free = gpu->free_events;
    gpu->free_events = event;
    pthread_mutex_unlock(&gpu->lock);
}

int gpu_event_status(const struct gpu_event *event, struct hvd_error *err)
{
    const struct gpu *gpu = event->gpu;
    int mode = 0;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    CUresult result = gpu->driver->cuEventQuery(event->event);
    cuda_device_leave(&gpu->device, mode);
    if (result == CUDA_ERROR_NOT_READY)
        return HVD_IN_PROGRESS;
    return result == CUDA_SUCCESS
               ? HVD_OK
               : cuda_error(gpu->driver, result, err, "GPU %d has failed", gpu->device.ordinal);
}

static void wake_driver(void *arg)
{
    eventfd_write((int)(intptr_t)arg, 1);
}

int gpu_notify(struct gpu *gpu, struct gpu_event *event, struct hvd_error *err)
{
    CUstream stream = event->queue->notify_stream;
    int mode = 0;
    if (event->notifies)
        return HVD_OK;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    CUresult result = gpu->driver->cuStreamWaitEvent(stream, event->event, 0);
    if (result == CUDA_SUCCESS)
        result = gpu->driver->cuLaunchHostFunc(stream, wake_driver, (void *)(intptr_t)gpu->notify_fd);
    cuda_device_leave(&gpu->device, mode);
    event->notifies = result == CUDA_SUCCESS;
    return event->notifies
               ? HVD_OK
               : cuda_error(gpu->driver, result, err, "GPU %d cannot wake hvd", gpu->device.ordinal);
}

/* ---- Copies ----------------------------------------------------------------------------------- */

struct copy {
    void *to;
    const void *from;
    int64_t bytes;
};

static int copy_in(struct gpu *gpu, CUstream stream, const struct copy *copy, struct hvd_error *err)
{
    int mode = 0;
    if (copy->bytes == 0)
        return HVD_OK;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    CUresult result = gpu->driver->cuMemcpyAsync((CUdeviceptr)copy->to, (CUdeviceptr)copy->from,
                                                 (size_t)copy->bytes, stream);
    if (result != CUDA_SUCCESS)
        rc = cuda_error(gpu->driver, result, err, "%lld bytes cannot be copied from or to GPU %d",
                        (long long)copy->bytes, gpu->device.ordinal);
    cuda_device_leave(&gpu->device, mode);
    return rc;
}

int gpu_fetch(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err)
{
    return copy_in(gpu, gpu->own.stream, &(struct copy){to, from, bytes}, err);
}

int gpu_copy(struct gpu *gpu, CUstream stream, void *to, const void *from, int64_t bytes,
             struct hvd_error *err)
{
    return copy_in(gpu, stream, &(struct copy){to, from, bytes}, err);
}

int gpu_store(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct hvd_error *err)
{
    return copy_in(gpu, gpu->stores.stream, &(struct copy){to, from, bytes}, err);
}

int gpu_copy_message(struct gpu *gpu, void *to, const void *from, int64_t bytes, struct gpu_event **eventp,
                     struct hvd_error *err)
{
    int rc = copy_in(gpu, gpu->messages.stream, &(struct copy){to, from, bytes}, err);
    return rc == HVD_OK ? mark_queue(gpu, &gpu->messages, eventp, err) : rc;
}

int gpu_block_take(struct gpu *gpu, int64_t bytes, struct host_block **blockp, struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    rc = host_block_pool_take(&gpu->message_blocks, &gpu->device, &gpu->host_memory, bytes, blockp, err);
    cuda_device_leave(&gpu->device, mode);
    return rc;
}

void gpu_block_put(struct host_block *block, const struct gpu_event *copied)
{
    block->taken = copied != NULL && gpu_event_status(copied, NULL) != HVD_OK;
}

int gpu_host_block(struct gpu *gpu, int block, int64_t bytes, char **memoryp, struct hvd_error *err)
{
    struct host_block *own = &gpu->blocks[block];
    int mode = 0;
    *memoryp = own->memory;
    if (bytes <= own->bytes)
        return HVD_OK;
    gpu_settle(gpu);
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    rc = host_block_grow(own, &gpu->device, &gpu->host_memory, bytes, err);
    cuda_device_leave(&gpu->device, mode);
    *memoryp = own->memory;
    return rc;
}

void *gpu_fusion_block(struct gpu *gpu, int64_t fusion_bytes, int64_t *bytesp)
{
    if (!gpu->fusion_block_asked) {
        gpu->fusion_block = nccl_memory_create(gpu->nccl, &gpu->device, fusion_bytes);
        gpu->fusion_block_bytes = fusion_bytes;
    }
    gpu->fusion_block_asked = true;
    if (bytesp != NULL)
        *bytesp = gpu->fusion_block_bytes;
    return gpu->fusion_block;
}

int gpu_device_block(struct gpu *gpu, int64_t bytes, int64_t fusion_bytes, void **memoryp,
                     struct hvd_error *err)
{
    const struct cuda_driver *driver = gpu->driver;
    int64_t wanted = bytes > fusion_bytes ? bytes : fusion_bytes;
    int mode = 0;
    *memoryp = (void *)(uintptr_t)gpu->device_block;
    if (bytes <= gpu->device_block_bytes)
        return HVD_OK;
    gpu_settle(gpu);
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    if (gpu->device_block_bytes > 0)
        driver->cuMemFree(gpu->device_block);
    gpu->device_block = 0;
    gpu->device_block_bytes = 0;
    CUresult result = driver->cuMemAlloc(&gpu->device_block, (size_t)wanted);
    cuda_device_leave(&gpu->device, mode);
    if (result != CUDA_SUCCESS)
        return cuda_error(driver, result, err,
                          "no memory of %lld bytes on GPU %d for a fusion buffer; lower --hvd-fusion",
                          (long long)wanted, gpu->device.ordinal);
    gpu->device_block_bytes = wanted;
    *memoryp = (void *)(uintptr_t)gpu->device_block;
    return HVD_OK;
}

/* ---- Packing ---------------------------------------------------------------------------------- */

int gpu_plan(struct gpu *gpu, const struct pack_list *list, struct pack_plan **planp, struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    if (gpu->kernels == NULL)
        rc = pack_kernels_load(&gpu->device, &gpu->kernels, err);
    if (rc == HVD_OK)
        rc = pack_plan_get(gpu->kernels, list, gpu->own.stream, planp, err);
    cuda_device_leave(&gpu->device, mode);
    return rc;
}

void gpu_plan_put(struct pack_plan *plan)
{
    pack_plan_put(plan);
}

int gpu_pack(struct gpu *gpu, const struct gpu_packing *packing, struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    rc = pack_launch(packing->plan, packing->buffer, packing->scale, packing->stream, err);
    cuda_device_leave(&gpu->device, mode);
    return rc;
}

int gpu_unpack(struct gpu *gpu, const struct gpu_packing *packing, struct hvd_error *err)
{
    int mode = 0;
    int rc = cuda_device_enter(&gpu->device, &mode, err);
    if (rc != HVD_OK)
        return rc;
    rc = unpack_launch(packing->plan, packing->buffer, packing->scale, packing->stream, err);
    cuda_device_leave(&gpu->device, mode);
    return rc;
}

/* ---- NCCL ------------------------------------------------------------------------------------- */

void gpu_warn(const struct gpu *gpu, const char *why)
{
    log_write(gpu->log, LOG_WARN, "gpu", "tensors on GPUs travel through host memory: %s", why);
}

const struct nccl *gpu_nccl(const struct gpu *gpu)
{
    return atomic_load_explicit(&gpu->opened, memory_order_acquire) ? gpu->nccl : NULL;
}

struct nccl_use gpu_nccl_use(const struct gpu *gpu)
{
    return gpu_nccl(gpu) != NULL ? gpu->nccl_use : (struct nccl_use){.possible = false};
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

struct CUstream_st *gpu_stream(const struct gpu *gpu)
{
    return gpu->own.stream;
}

/* ---- Ends ------------------------------------------------------------------------------------- */

static bool is_empty(const struct cuda_driver *driver, const struct queue *queue)
{
    return driver->cuStreamQuery(queue->stream) != CUDA_ERROR_NOT_READY &&
           driver->cuStreamQuery(queue->notify_stream) != CUDA_ERROR_NOT_READY;
}

static bool are_empty(const void *arg)
{
    const struct gpu *gpu = arg;
    return is_empty(gpu->driver, &gpu->own) && is_empty(gpu->driver, &gpu->stores) &&
           is_empty(gpu->driver, &gpu->messages);
}

void gpu_wake_driver(const struct gpu *gpu)
{
    eventfd_write(gpu->notify_fd, 1);
}

struct gpu_memory_registry *gpu_memory_registry(struct gpu *gpu)
{
    return &gpu->registry;
}

bool gpu_settle_until(struct gpu *gpu, bool (*is_idle)(const void *arg), const void *arg)
{
    const struct timespec pause = {.tv_nsec = 100000};
    int64_t deadline_us = clock_us() + SETTLE_US;
    bool settled = false;
    int mode = 0;
    if (!atomic_load(&gpu->opened) || cuda_device_enter(&gpu->device, &mode, NULL) != HVD_OK)
        return true;
    do {
        settled = is_idle(arg);
        if (!settled)
            nanosleep(&pause, NULL);
    } while (!settled && clock_us() < deadline_us);
    cuda_device_leave(&gpu->device, mode);
    return settled;
}

bool gpu_settle(struct gpu *gpu)
{
    return gpu_settle_until(gpu, are_empty, gpu);
}

void gpu_after_fork(struct gpu *gpu)
{
    descriptors_close(&gpu->notify_fd);
    pthread_mutex_init(&gpu->registry.lock, NULL);
}

/* CUDA's part of them goes only while the device is [entered]. */
static void free_events(struct gpu *gpu, bool entered)
{
    while (gpu->free_events != NULL) {
        struct gpu_event *event = gpu->free_events;
        gpu->free_events = event->next_free;
        if (entered)
            gpu->driver->cuEventDestroy(event->event);
        free(event);
    }
}

static void free_memory(struct gpu *gpu)
{
    int mode = 0;
    if (cuda_device_enter(&gpu->device, &mode, NULL) != HVD_OK)
        return;
    pack_kernels_unload(gpu->kernels);
    nccl_memory_destroy(gpu->nccl, gpu->fusion_block);
    if (gpu->device_block_bytes > 0)
        gpu->driver->cuMemFree(gpu->device_block);
    for (int block = 0; block < GPU_BLOCKS; block++)
        host_block_free(&gpu->blocks[block], &gpu->device, &gpu->host_memory);
    host_block_pool_free(&gpu->message_blocks, &gpu->device, &gpu->host_memory);
    free_events(gpu, true);
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
    free_events(gpu, false);
    nccl_close(gpu->nccl);
    cuda_driver_close(gpu->driver);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}
