/* stream.c: streams, each with a thread that takes its work in order, and events. */
#include "double.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static CUstream streams; /* destroyed ones stay, so that a late use is found out */
static CUevent events;

/* ---- The thread of a stream ----------------------------------------------------------------- */

static void sleep_us(int us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000L};
    if (us > 0)
        nanosleep(&time, NULL);
}

static bool value_reached(const struct work *work, const unsigned *from)
{
    unsigned value = __atomic_load_n(from, __ATOMIC_ACQUIRE);
    switch (work->flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return value == work->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (value & work->value) != 0;
    default:
        return (int)(value - work->value) >= 0;
    }
}

/* What needs no lock. */
static void work_run(const struct work *work)
{
    void *to = cuDoubleReach(work->to);
    const void *from = cuDoubleReach(work->from);
    switch (work->kind) {
    case WORK_COPY:
        memmove(to, from, work->bytes);
        break;
    case WORK_SET:
        memset(to, (int)work->value, work->bytes);
        break;
    case WORK_KERNEL:
        double_run_kernel(&work->pack, work->blocks);
        break;
    case WORK_HOST:
        work->call(work->arg);
        break;
    case WORK_WAIT_VALUE:
        while (!value_reached(work, from))
            sleep_us(50);
        break;
    case WORK_WRITE_VALUE:
        __atomic_store_n((unsigned *)to, work->value, __ATOMIC_RELEASE);
        break;
    case WORK_END_LAUNCH:
        double_release_objects(work->arg);
        break;
    default:
        break;
    }
}

/* The place of record [number] among those that are pending, or NULL; 0 finds room. An event may be recorded
 * again before a stream has come to its last record: whoever waits for that waits for that one. */
static uint64_t *find_pending(CUevent event, uint64_t number)
{
    for (int i = 0; i < PENDING_MAX; i++)
        if (event->pending[i] == number)
            return &event->pending[i];
    return NULL;
}

static bool is_pending(CUevent event, uint64_t number)
{
    return number != 0 && find_pending(event, number) != NULL;
}

/* After an error nothing runs any more, but events happen, so that nobody waits for ever. */
static void work_take(CUstream stream, const struct work *work, int delay_us)
{
    while (work->kind == WORK_WAIT && is_pending(work->event, work->number))
        pthread_cond_wait(&double_changed, &double_lock);
    bool failed = stream->context->error != CUDA_SUCCESS;
    if (work->kind == WORK_COPY && double_is_pinned(work->from))
        delay_us += double_number("HVD_DOUBLE_CUDA_BACK_US", 0);
    pthread_mutex_unlock(&double_lock);
    sleep_us(delay_us);
    CUresult error = failed ? CUDA_SUCCESS : double_work_error();
    if (!failed && error == CUDA_SUCCESS)
        work_run(work);
    pthread_mutex_lock(&double_lock);
    if (error != CUDA_SUCCESS)
        stream->context->error = error;
    if (work->kind == WORK_RECORD)
        *find_pending(work->event, work->number) = 0;
}

static void *stream_thread(void *arg)
{
    CUstream stream = arg;
    int delay_us = double_number("HVD_DOUBLE_CUDA_DELAY_US", 0);
    pthread_mutex_lock(&double_lock);
    while (stream->first != NULL || !stream->destroyed) {
        struct work *work = stream->first;
        if (work == NULL) {
            pthread_cond_wait(&double_changed, &double_lock);
            continue;
        }
        work_take(stream, work, delay_us);
        stream->first = work->next;
        if (stream->first == NULL)
            stream->last = &stream->first;
        free(work);
        pthread_cond_broadcast(&double_changed);
    }
    pthread_mutex_unlock(&double_lock);
    return NULL;
}

/* ---- Streams -------------------------------------------------------------------------------- */

static CUstream stream_create(CUcontext context)
{
    pthread_t thread;
    CUstream stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        double_complain("this machine has no memory for a stream");
    stream->context = context;
    stream->last = &stream->first;
    stream->next = streams;
    streams = stream;
    if (pthread_create(&thread, NULL, stream_thread, stream) != 0)
        double_complain("this machine has no thread for a stream");
    pthread_detach(thread);
    return stream;
}

CUstream double_stream(CUstream stream, const char *name, CUresult *resultp)
{
    CUcontext current = double_current();
    if (stream == NULL || stream == CU_STREAM_LEGACY) {
        *resultp = double_current_error();
        if (*resultp != CUDA_SUCCESS)
            return NULL;
        if (current->stream == NULL)
            current->stream = stream_create(current);
        return current->stream;
    }
    CUstream known = streams;
    while (known != NULL && known != stream)
        known = known->next;
    if (known == NULL || known->destroyed)
        double_complain("%s: %p is %s", name, (void *)stream,
                        known == NULL ? "no stream" : "a destroyed stream");
    *resultp = known->context->error;
    return *resultp == CUDA_SUCCESS ? known : NULL;
}

CUresult double_submit(CUstream stream, const struct work *work)
{
    if (stream->capture != NULL) {
        if (stream->capture->invalid)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        stream->unjoined = true;
        double_graph_add(stream->capture, work);
        return CUDA_SUCCESS;
    }
    struct work *copy = malloc(sizeof(*copy));
    if (copy == NULL)
        double_complain("this machine has no memory for the work of a stream");
    *copy = *work;
    copy->next = NULL;
    *stream->last = copy;
    stream->last = &copy->next;
    pthread_cond_broadcast(&double_changed);
    return CUDA_SUCCESS;
}

void double_drain(CUcontext context)
{
    CUstream busy;
    do {
        busy = streams;
        while (busy != NULL && (busy->first == NULL || (context != NULL && busy->context != context)))
            busy = busy->next;
        if (busy != NULL)
            pthread_cond_wait(&double_changed, &double_lock);
    } while (busy != NULL);
}

bool double_capture_ends(struct CUgraph_st *graph)
{
    bool joined = true;
    for (CUstream at = streams; at != NULL; at = at->next) {
        if (at->capture != graph)
            continue;
        joined = joined && (at == graph->origin || !at->unjoined);
        at->capture = NULL;
        at->unjoined = false;
    }
    return joined;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    result = double_current_error();
    if (result == CUDA_SUCCESS)
        *stream = stream_create(double_current());
    pthread_mutex_unlock(&double_lock);
    return result;
}

/* Begin a call that names a stream; end_call ends it. */
static CUresult begin_call(const char *name, CUstream *streamp)
{
    CUresult result = double_call(name);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    *streamp = double_stream(*streamp, name, &result);
    if (*streamp == NULL)
        pthread_mutex_unlock(&double_lock);
    return result;
}

static CUresult end_call(CUresult result)
{
    pthread_mutex_unlock(&double_lock);
    return result;
}

/* What waits for a stream, or asks for it, is not allowed while it is captured, and spoils the graph. */
static CUresult allowed_outside_capture(CUstream stream)
{
    if (stream->capture == NULL)
        return CUDA_SUCCESS;
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* It is gone when its work is done. */
CUresult cuStreamDestroy_v2(CUstream stream)
{
    CUresult result = double_call(__func__);
    CUresult unused = CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&double_lock);
    double_stream(stream, __func__, &unused);
    stream->destroyed = true;
    pthread_cond_broadcast(&double_changed);
    return end_call(CUDA_SUCCESS);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult result = begin_call(__func__, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    result = allowed_outside_capture(stream);
    while (result == CUDA_SUCCESS && stream->first != NULL)
        pthread_cond_wait(&double_changed, &double_lock);
    return end_call(result == CUDA_SUCCESS ? stream->context->error : result);
}

CUresult cuStreamQuery(CUstream stream)
{
    CUresult result = begin_call(__func__, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    result = allowed_outside_capture(stream);
    if (result == CUDA_SUCCESS && stream->first != NULL)
        result = CUDA_ERROR_NOT_READY;
    return end_call(result);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    CUresult result = begin_call(__func__, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    *context = stream->context;
    return end_call(CUDA_SUCCESS);
}

/* ---- Work ----------------------------------------------------------------------------------- */

/* Copies between devices and pinned memory, as they were submitted. */
static int copies_to_host, copies_back, most_ahead;

static void count_copy(const struct work *work)
{
    if (work->kind != WORK_COPY)
        return;
    copies_to_host += double_is_pinned(work->to);
    copies_back += double_is_pinned(work->from);
    if (copies_to_host - copies_back > most_ahead)
        most_ahead = copies_to_host - copies_back;
}

static CUresult submit_call(const char *name, CUstream stream, const struct work *work)
{
    CUresult result = begin_call(name, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (work->to != NULL)
        double_check_range(name, work->to, work->bytes, work->kind == WORK_COPY);
    if (work->from != NULL)
        double_check_range(name, work->from, work->bytes, work->kind == WORK_COPY);
    count_copy(work);
    return end_call(double_submit(stream, work));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return submit_call(
        __func__, stream,
        &(struct work){.kind = WORK_COPY, .to = (void *)to, .from = (const void *)from, .bytes = bytes});
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return submit_call(__func__, stream,
                       &(struct work){.kind = WORK_COPY, .to = (void *)to, .from = from, .bytes = bytes});
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return submit_call(
        __func__, stream,
        &(struct work){.kind = WORK_COPY, .to = to, .from = (const void *)from, .bytes = bytes});
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return submit_call(
        __func__, stream,
        &(struct work){.kind = WORK_COPY, .to = (void *)to, .from = (const void *)from, .bytes = bytes});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    return submit_call(__func__, stream,
                       &(struct work){.kind = WORK_SET, .to = (void *)to, .value = value, .bytes = bytes});
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn call, void *arg)
{
    return submit_call(__func__, stream, &(struct work){.kind = WORK_HOST, .call = call, .arg = arg});
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, unsigned value, unsigned flags)
{
    return submit_call(__func__, stream,
                       &(struct work){.kind = WORK_WAIT_VALUE,
                                      .from = (const void *)address,
                                      .bytes = 4,
                                      .value = value,
                                      .flags = flags});
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, unsigned value, unsigned flags)
{
    return submit_call(
        __func__, stream,
        &(struct work){
            .kind = WORK_WRITE_VALUE, .to = (void *)address, .bytes = 4, .value = value, .flags = flags});
}

/* ---- Events --------------------------------------------------------------------------------- */

static void check_event(CUevent event, const char *name)
{
    CUevent known = events;
    while (known != NULL && known != event)
        known = known->next;
    if (known == NULL || known->destroyed)
        double_complain("%s: %p is %s", name, (void *)event,
                        known == NULL ? "no event" : "a destroyed event");
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    result = double_current_error();
    CUevent made = result == CUDA_SUCCESS ? calloc(1, sizeof(*made)) : NULL;
    if (made != NULL) {
        made->context = double_current();
        made->next = events;
        events = made;
        *event = made;
    }
    return end_call(result);
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    check_event(event, __func__);
    event->destroyed = true;
    return end_call(CUDA_SUCCESS);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult result = begin_call(__func__, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    check_event(event, __func__);
    if (event->context != stream->context)
        return end_call(CUDA_ERROR_INVALID_HANDLE);
    if (stream->capture != NULL) {
        event->captured_in = stream;
        return end_call(stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
    }
    uint64_t *room = find_pending(event, 0);
    if (room == NULL)
        double_complain("cuEventRecord: %d records of an event are pending", PENDING_MAX);
    event->captured_in = NULL;
    *room = ++event->recorded;
    return end_call(double_submit(
        stream, &(struct work){.kind = WORK_RECORD, .event = event, .number = event->recorded}));
}

/* Work that was captured before the event: this stream captures from now on, too. */
static CUresult join_capture(CUstream stream, CUstream other)
{
    if (other->capture == NULL)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (stream->capture != NULL && stream->capture != other->capture)
        double_complain("cuStreamWaitEvent: two captures wait for each other");
    stream->capture = other->capture;
    if (stream == stream->capture->origin)
        other->unjoined = false;
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    CUresult result = begin_call(__func__, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    check_event(event, __func__);
    if (event->captured_in != NULL)
        return end_call(event->captured_in == stream ? CUDA_SUCCESS
                                                     : join_capture(stream, event->captured_in));
    if (stream->capture != NULL && event->recorded > 0) {
        stream->capture->invalid = true;
        return end_call(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    return end_call(
        double_submit(stream, &(struct work){.kind = WORK_WAIT, .event = event, .number = event->recorded}));
}

static CUresult event_state(CUevent event, const char *name)
{
    check_event(event, name);
    if (event->captured_in != NULL)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (event->context->error != CUDA_SUCCESS)
        return event->context->error;
    CUresult allowed = double_capture_allows();
    if (allowed != CUDA_SUCCESS)
        return allowed;
    return is_pending(event, event->recorded) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    return end_call(event_state(event, __func__));
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    for (result = event_state(event, __func__); result == CUDA_ERROR_NOT_READY;
         result = event_state(event, __func__))
        pthread_cond_wait(&double_changed, &double_lock);
    return end_call(result);
}

/* The double has no clock of a device. */
CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    result = event_state(from, __func__);
    if (result == CUDA_SUCCESS)
        result = event_state(to, __func__);
    *milliseconds = 1;
    return end_call(result);
}

int double_held_streams(void)
{
    int held = 0;
    for (CUstream at = streams; at != NULL; at = at->next)
        held += !at->destroyed && at != at->context->stream;
    return held;
}

int double_held_events(void)
{
    int held = 0;
    for (CUevent at = events; at != NULL; at = at->next)
        held += !at->destroyed;
    return held;
}

/* The thread of a stream that was not destroyed ends with the process. */
__attribute__((destructor)) static void report_streams(void)
{
    if (!double_started())
        return;
    pthread_mutex_lock(&double_lock);
    int lost_streams = double_held_streams();
    int lost_events = double_held_events();
    pthread_mutex_unlock(&double_lock);
    if (lost_streams > 0)
        double_report("%d streams were not destroyed", lost_streams);
    if (lost_events > 0)
        double_report("%d events were not destroyed", lost_events);
    if (getenv("HVD_DOUBLE_CUDA_COUNTS") != NULL)
        double_report("%d copies to the host, at most %d ahead of the copies back", copies_to_host,
                      most_ahead);
}
