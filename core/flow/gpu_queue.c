/* gpu_queue.c: the queues of this rank's GPU and their events: what waits for what, copies, packing, and when
 * the queues are empty. */
#include "config.h"

#include "flow/gpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "flow/gpu_state.h"

#define SETTLE_US INT64_C(5000000)

struct gpu_event {
    struct gpu *gpu;
    CUevent event;
    _Atomic int holders;
    const struct gpu_queue *queue; /* the one of the GPU's in which it is */
    bool notifies;                 /* the driver is woken when it comes */
    struct gpu_event *next_free;
};

/* ---- The queues ------------------------------------------------------------------------------- */

int gpu_open_queues(struct gpu *gpu, struct hvd_error *err)
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

static void close_queue(const struct cuda_driver *driver, struct gpu_queue *queue)
{
    if (queue->stream != NULL)
        driver->cuStreamDestroy(queue->stream);
    if (queue->notify_stream != NULL)
        driver->cuStreamDestroy(queue->notify_stream);
    *queue = (struct gpu_queue){NULL, NULL};
}

void gpu_close_queues(struct gpu *gpu)
{
    close_queue(gpu->driver, &gpu->own);
    close_queue(gpu->driver, &gpu->stores);
    close_queue(gpu->driver, &gpu->messages);
    descriptors_close(&gpu->notify_fd);
}

struct CUstream_st *gpu_stream(const struct gpu *gpu)
{
    return gpu->own.stream;
}

void gpu_wake_driver(const struct gpu *gpu)
{
    eventfd_write(gpu->notify_fd, 1);
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

static int mark_queue(struct gpu *gpu, const struct gpu_queue *queue, struct gpu_event **eventp,
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

void gpu_free_events(struct gpu *gpu, bool entered)
{
    while (gpu->free_events != NULL) {
        struct gpu_event *event = gpu->free_events;
        gpu->free_events = event->next_free;
        if (entered)
            gpu->driver->cuEventDestroy(event->event);
        free(event);
    }
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

/* ---- Until they are empty --------------------------------------------------------------------- */

static bool is_empty(const struct cuda_driver *driver, const struct gpu_queue *queue)
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
