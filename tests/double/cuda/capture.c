/* capture.c: streams that are captured instead of run, and graphs. */
#include "double.h"

#include <stdlib.h>

struct object {
    struct object *next;
    void (*destroy)(void *arg);
    void *arg;
};

struct graph_objects {
    _Atomic int holders; /* a graph, what was instantiated of it, and their launches */
    struct object *first;
};

struct CUgraphExec_st {
    struct work *first;
    struct graph_objects *objects;
};

static struct CUgraph_st *capturing[DEVICES_MAX]; /* graphs that are being made */
static int graphs, executables;                   /* that were not destroyed */
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void double_graph_add(struct CUgraph_st *graph, const struct work *work)
{
    struct work *copy = malloc(sizeof(*copy));
    if (copy == NULL)
        double_complain("this machine has no memory for a graph");
    *copy = *work;
    copy->next = NULL;
    *graph->last = copy;
    graph->last = &copy->next;
}

static void free_work(struct work *work)
{
    while (work != NULL) {
        struct work *next = work->next;
        free(work);
        work = next;
    }
}

/* ---- What a graph owns ------------------------------------------------------------------------ */

static void hold_objects(struct graph_objects *objects)
{
    objects->holders++;
}

void double_release_objects(struct graph_objects *objects)
{
    if (--objects->holders > 0)
        return;
    while (objects->first != NULL) {
        struct object *object = objects->first;
        objects->first = object->next;
        object->destroy(object->arg);
        free(object);
    }
    free(objects);
}

bool cuDoubleOwnByGraph(CUstream stream, void (*destroy)(void *arg), void *arg)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&double_lock);
    stream = double_stream(stream, __func__, &result);
    bool captures = stream != NULL && stream->capture != NULL;
    struct object *object = captures ? malloc(sizeof(*object)) : NULL;
    if (object != NULL) {
        struct graph_objects *objects = stream->capture->objects;
        *object = (struct object){objects->first, destroy, arg};
        objects->first = object;
    }
    pthread_mutex_unlock(&double_lock);
    return captures;
}

/* ---- Capturing -------------------------------------------------------------------------------- */

/* A capture in the mode GLOBAL forbids such calls to all threads that are in that mode, too; one in the mode
 * THREAD_LOCAL to its own thread. */
CUresult double_capture_allows(void)
{
    for (int i = 0; i < DEVICES_MAX; i++) {
        struct CUgraph_st *graph = capturing[i];
        if (graph == NULL || graph->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
            thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
            continue;
        bool own = pthread_equal(graph->thread, pthread_self());
        if (own ||
            (graph->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) {
            graph->invalid = true;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult result = double_call(__func__);
    CUstreamCaptureMode before = thread_mode;
    if (result != CUDA_SUCCESS)
        return result;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    stream = double_stream(stream, __func__, &result);
    if (stream != NULL)
        *status = stream->capture == NULL    ? CU_STREAM_CAPTURE_STATUS_NONE
                  : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    pthread_mutex_unlock(&double_lock);
    return result;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream == NULL)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&double_lock);
    stream = double_stream(stream, __func__, &result);
    int place = 0;
    while (place < DEVICES_MAX && capturing[place] != NULL)
        place++;
    if (stream != NULL && (stream->capture != NULL || place == DEVICES_MAX))
        result = CUDA_ERROR_INVALID_VALUE;
    struct CUgraph_st *graph = result == CUDA_SUCCESS ? calloc(1, sizeof(*graph)) : NULL;
    if (graph != NULL) {
        graph->last = &graph->first;
        graph->objects = calloc(1, sizeof(*graph->objects));
        if (graph->objects == NULL)
            double_complain("this machine has no memory for a graph");
        graph->objects->holders = 1;
        graph->mode = mode;
        graph->thread = pthread_self();
        graph->origin = stream;
        stream->capture = graph;
        capturing[place] = graph;
        graphs++;
    }
    pthread_mutex_unlock(&double_lock);
    return result;
}

static void graph_free(struct CUgraph_st *graph)
{
    free_work(graph->first);
    double_release_objects(graph->objects);
    free(graph);
    graphs--;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graphp)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    stream = double_stream(stream, __func__, &result);
    struct CUgraph_st *graph = stream != NULL ? stream->capture : NULL;
    if (stream != NULL && (graph == NULL || graph->origin != stream))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        bool joined = double_capture_ends(graph);
        result = graph->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                 : joined       ? CUDA_SUCCESS
                                : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        for (int i = 0; i < DEVICES_MAX; i++)
            if (capturing[i] == graph)
                capturing[i] = NULL;
        *graphp = result == CUDA_SUCCESS ? graph : NULL;
        if (result != CUDA_SUCCESS)
            graph_free(graph);
    }
    pthread_mutex_unlock(&double_lock);
    return result;
}

/* ---- Graphs --------------------------------------------------------------------------------- */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    CUresult result = flags == 0 ? double_call(__func__) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct CUgraph_st copy = {.last = &copy.first};
    CUgraphExec made = calloc(1, sizeof(*made));
    if (made == NULL)
        double_complain("this machine has no memory for a graph");
    for (const struct work *work = graph->first; work != NULL; work = work->next)
        double_graph_add(&copy, work);
    made->first = copy.first;
    made->objects = graph->objects;
    hold_objects(made->objects);
    pthread_mutex_lock(&double_lock);
    executables++;
    pthread_mutex_unlock(&double_lock);
    *executable = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    stream = double_stream(stream, __func__, &result);
    for (const struct work *work = executable->first; work != NULL && result == CUDA_SUCCESS;
         work = work->next)
        result = double_submit(stream, work);
    if (result == CUDA_SUCCESS) {
        hold_objects(executable->objects);
        result = double_submit(stream, &(struct work){.kind = WORK_END_LAUNCH, .arg = executable->objects});
    }
    pthread_mutex_unlock(&double_lock);
    return result;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    graph_free(graph);
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    free_work(executable->first);
    double_release_objects(executable->objects);
    free(executable);
    pthread_mutex_lock(&double_lock);
    executables--;
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

int double_held_graphs(void)
{
    return graphs + executables;
}

__attribute__((destructor)) static void report_graphs(void)
{
    if (double_started() && graphs + executables > 0)
        double_report("%d graphs and %d that were instantiated were not destroyed", graphs, executables);
}
