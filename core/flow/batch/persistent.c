/* persistent.c: persistent operations: kept, started in a stream of the program, and freed. */
#include "flow/batch/persistent.h"

#include <stdlib.h>

#include "backend/nccl/nccl.h"
#include "base/clock.h"
#include "flow/batch/direct.h"

struct persistent {
    LIST_ENTRY(persistent) link;
    hvd_persistent number;
    const struct desc *desc; /* a reference is held */
    struct batch *batches;   /* leaders, in the order in which they are started; owned */
    int status;              /* HVD_OK, or why it cannot be started any more */
    struct hvd_error reason;
    int starts; /* that the driver or the GPU has not done */
    bool published;
    bool captured; /* it is in a graph, for all that is known */
    bool freed;
};

/* A number of an earlier job of this process must not be taken for one of this: numbers begin at the time. */
void persistents_init(struct persistents *persistents)
{
    persistents->last = (hvd_persistent)clock_us();
    pthread_mutex_init(&persistents->lock, NULL);
    LIST_INIT(&persistents->list);
    STAILQ_INIT(&persistents->starts);
}

/* ---- Making one -------------------------------------------------------------------------------- */

struct persistent *persistent_create(struct persistents *persistents, const struct desc *desc)
{
    struct persistent *persistent = calloc(1, sizeof(*persistent));
    if (persistent == NULL)
        return NULL;
    persistent->desc = desc_hold(desc);
    pthread_mutex_lock(&persistents->lock);
    persistent->number = ++persistents->last;
    LIST_INSERT_HEAD(&persistents->list, persistent, link);
    pthread_mutex_unlock(&persistents->lock);
    return persistent;
}

hvd_persistent persistent_publish(struct persistents *persistents, struct persistent *persistent)
{
    pthread_mutex_lock(&persistents->lock);
    persistent->published = true;
    pthread_mutex_unlock(&persistents->lock);
    return persistent->number;
}

static void free_locked(struct persistents *persistents, struct persistent *persistent)
{
    persistent->freed = true;
    if (persistent->captured)
        atomic_fetch_sub(&persistents->captured, 1);
    persistent->captured = false;
    atomic_store(&persistents->any_freed, true);
}

void persistent_discard(struct persistents *persistents, struct persistent *persistent)
{
    pthread_mutex_lock(&persistents->lock);
    free_locked(persistents, persistent);
    pthread_mutex_unlock(&persistents->lock);
}

void persistent_keep(struct persistent *persistent, struct batch *batch)
{
    struct batch **last = &persistent->batches;
    while (*last != NULL)
        last = &(*last)->next;
    batch->next = NULL;
    *last = batch;
}

static void free_batches(struct batch *batch)
{
    while (batch != NULL) {
        struct batch *next = batch->next;
        free_batches(batch_take_companions(batch));
        batch_free(batch);
        batch = next;
    }
}

static void destroy_locked(struct persistent *persistent)
{
    LIST_REMOVE(persistent, link);
    free_batches(persistent->batches);
    desc_release(persistent->desc);
    free(persistent);
}

void persistents_fini(struct persistents *persistents)
{
    while (!LIST_EMPTY(&persistents->list))
        destroy_locked(LIST_FIRST(&persistents->list));
    pthread_mutex_destroy(&persistents->lock);
}

/* ---- Calls of the program ----------------------------------------------------------------------- */

static int find_operation_locked(const struct persistents *persistents, hvd_persistent number,
                                 struct persistent **persistentp, struct hvd_error *err)
{
    struct persistent *at = LIST_FIRST(&persistents->list);
    while (at != NULL && (at->number != number || !at->published || at->freed))
        at = LIST_NEXT(at, link);
    *persistentp = at;
    if (at != NULL)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "there is no persistent operation %llu: it was freed already, or hvd never returned it",
                     (unsigned long long)number);
}

static int check_locked(const struct persistents *persistents, const struct persistent *persistent,
                        struct hvd_error *err)
{
    char title[DESC_TITLE_BYTES];
    desc_title(persistent->desc, title, sizeof(title));
    if (persistent->status != HVD_OK)
        return error_set(err, persistent->status, "%s: %s", title, persistent->reason.text);
    if (atomic_load(&persistents->finish->joins) > 0)
        return error_set(
            err, HVD_ERR_STATE,
            "%s: this rank has joined, and may have to take part in operations of the others before "
            "it; start it when hvd_join has returned",
            title);
    return HVD_OK;
}

static void add_start_locked(struct persistents *persistents, struct persistent_start *start)
{
    struct persistent *persistent = start->persistent;
    if (start->captured && !persistent->captured) {
        persistent->captured = true;
        atomic_fetch_add(&persistents->captured, 1);
    }
    persistent->starts++;
    STAILQ_INSERT_TAIL(&persistents->starts, start, link);
    atomic_store(&persistents->any_start, true);
}

int persistents_start(struct persistents *persistents, hvd_persistent number, void *stream,
                      struct persistent_start *start, struct hvd_error *err)
{
    *start = (struct persistent_start){.stream = stream};
    pthread_mutex_lock(&persistents->lock);
    int rc = find_operation_locked(persistents, number, &start->persistent, err);
    if (rc == HVD_OK)
        rc = check_locked(persistents, start->persistent, err);
    if (rc == HVD_OK)
        rc = gpu_find_capture(persistents->gpu, stream, &start->captured, err);
    if (rc == HVD_OK)
        add_start_locked(persistents, start);
    pthread_mutex_unlock(&persistents->lock);
    return rc;
}

int persistents_free(struct persistents *persistents, hvd_persistent number, struct hvd_error *err)
{
    struct persistent *persistent = NULL;
    pthread_mutex_lock(&persistents->lock);
    int rc = find_operation_locked(persistents, number, &persistent, err);
    if (rc == HVD_OK)
        free_locked(persistents, persistent);
    pthread_mutex_unlock(&persistents->lock);
    return rc;
}

int persistents_check(struct persistents *persistents, const struct desc *desc, struct hvd_error *err)
{
    char title[DESC_TITLE_BYTES];
    char other[DESC_TITLE_BYTES] = "";
    if (atomic_load(&persistents->captured) == 0)
        return HVD_OK;
    pthread_mutex_lock(&persistents->lock);
    for (const struct persistent *at = LIST_FIRST(&persistents->list); at != NULL; at = LIST_NEXT(at, link))
        if (at->captured)
            desc_title(at->desc, other, sizeof(other));
    pthread_mutex_unlock(&persistents->lock);
    if (other[0] == 0)
        return HVD_OK; /* it was freed in between */
    desc_title(desc, title, sizeof(title));
    return error_set(
        err, HVD_ERR_STATE,
        "%s: %s is in a CUDA graph, and the GPUs of some ranks might take these two in another order "
        "than others; free that with hvd_persistent_free first, or make this persistent before",
        title, other);
}

/* ---- Starting ----------------------------------------------------------------------------------- */

/* NULL: there is none. */
static struct persistent_start *first_start(struct persistents *persistents)
{
    if (!atomic_load(&persistents->any_start))
        return NULL;
    pthread_mutex_lock(&persistents->lock);
    struct persistent_start *start = STAILQ_FIRST(&persistents->starts);
    pthread_mutex_unlock(&persistents->lock);
    return start;
}

/* Let the caller of [start] go on. [goes_on]: the GPU still has to do it. */
static void end_start(struct persistents *persistents, struct persistent_start *start, bool goes_on,
                      int status)
{
    pthread_mutex_lock(&persistents->lock);
    STAILQ_REMOVE_HEAD(&persistents->starts, link);
    start->persistent->starts -= !goes_on;
    atomic_store(&persistents->any_start, !STAILQ_EMPTY(&persistents->starts));
    pthread_mutex_unlock(&persistents->lock);
    persistents->is_launching = false;
    start->status = status;
    persistents->finish->any_finished = true;
    atomic_store_explicit(&start->done, true, memory_order_release);
}

/* End starts that are refused, from the first on. */
static void end_refused(struct persistents *persistents)
{
    struct persistent_start *start = first_start(persistents);
    while (start != NULL && start->persistent->status != HVD_OK) {
        const struct persistent *persistent = start->persistent;
        char title[DESC_TITLE_BYTES];
        desc_title(persistent->desc, title, sizeof(title));
        error_set(&start->err, persistent->status, "%s: %s", title, persistent->reason.text);
        batch_free(start->launch);
        end_start(persistents, start, false, persistent->status);
        start = first_start(persistents);
    }
}

/* Operations that this rank submitted before come first. A capture can wait for no event, so there the GPU
 * must have done all of them. */
static bool may_launch(const struct persistents *persistents, const struct persistent_start *start)
{
    return atomic_load(&persistents->finish->unlaunched) == 0 &&
           !batch_queue_is_in_nccl(persistents->batch_queue) &&
           (!start->captured || !batch_queue_has_launched(persistents->batch_queue));
}

/* The stream waits for what the GPU's own queue has. */
static int follow_own(struct gpu *gpu, struct batch *launch, void *stream, struct hvd_error *err)
{
    struct gpu_event *own = NULL;
    int rc = gpu_mark(gpu, stream, &batch_start(launch)->ready, err);
    if (rc == HVD_OK)
        rc = gpu_mark_own(gpu, &own, err);
    if (rc == HVD_OK)
        rc = gpu_follow(own, stream, err);
    gpu_event_release(own);
    return rc;
}

/* The GPU's own queue waits for the stream. */
static int lead_own(struct gpu *gpu, struct batch *launch, void *stream, struct hvd_error *err)
{
    struct gpu_event *end = NULL;
    int rc = gpu_mark(gpu, stream, &end, err);
    if (rc == HVD_OK)
        rc = gpu_await(gpu, end, err);
    if (rc == HVD_OK)
        rc = gpu_mark_own(gpu, &launch->event, err);
    gpu_event_release(end);
    return rc;
}

/* An error here concerns the caller alone, because NCCL has been given nothing yet. */
static int begin_start(struct persistents *persistents, struct persistent_start *start, struct hvd_error *err)
{
    struct batch *first = start->persistent->batches;
    struct batch *launch = batch_create_start(first, start->persistent, start->persistent->desc);
    if (launch == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to start a persistent operation");
    int rc = start->captured ? HVD_OK : follow_own(first->gpu, launch, start->stream, err);
    if (rc != HVD_OK) {
        batch_free(launch);
        return rc;
    }
    if (start->captured && batch_uses_nccl(first))
        nccl_team_captured(first->set->nccl);
    start->launch = launch;
    start->batch = first;
    persistents->is_launching = true;
    return HVD_OK;
}

/* All is in the stream. That ends a start in a capture; any other ends when the GPU has done it. */
static int complete_start(struct persistents *persistents, struct persistent_start *start,
                          struct hvd_error *err)
{
    struct batch *launch = start->launch;
    int rc = start->captured ? HVD_OK : lead_own(launch->gpu, launch, start->stream, err);
    if (rc != HVD_OK)
        return rc;
    if (start->captured)
        batch_free(launch);
    else
        batch_queue_append_launched(persistents->batch_queue, launch);
    end_start(persistents, start, !start->captured, HVD_OK);
    return HVD_OK;
}

/* Launch the next batch when NCCL has put the one before into the stream. */
static int advance_start(struct persistents *persistents, struct persistent_start *start, bool *movedp,
                         struct hvd_error *err)
{
    int rc = direct_test_launched(start->batch, movedp, err);
    if (rc != HVD_OK || !*movedp)
        return rc;
    start->batch = start->batch->next;
    if (start->batch == NULL)
        return complete_start(persistents, start, err);
    return direct_launch(start->batch, start->stream, err);
}

static int run_start(struct persistents *persistents, struct persistent_start *start, bool *movedp,
                     struct hvd_error *err)
{
    if (persistents->is_launching)
        return advance_start(persistents, start, movedp, err);
    *movedp = may_launch(persistents, start);
    if (!*movedp)
        return HVD_OK;
    int rc = begin_start(persistents, start, &start->err);
    if (rc == HVD_OK)
        return direct_launch(start->batch, start->stream, err);
    end_start(persistents, start, false, rc);
    return HVD_OK;
}

/* NCCL may fail in a graph, and nobody tells hvd when a graph is launched. */
static int watch_graphs(struct persistents *persistents, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (atomic_load(&persistents->captured) == 0) /* mostly: without looking at the clock */
        return HVD_OK;
    int64_t now_us = clock_us();
    if (now_us - persistents->watched_at_us < NCCL_WATCH_US)
        return HVD_OK;
    persistents->watched_at_us = now_us;
    pthread_mutex_lock(&persistents->lock);
    for (const struct persistent *at = LIST_FIRST(&persistents->list);
         at != NULL && (rc == HVD_OK || rc == HVD_IN_PROGRESS); at = LIST_NEXT(at, link))
        if (at->captured && at->status == HVD_OK)
            rc = direct_watch(at->batches, err);
    rc = rc == HVD_IN_PROGRESS ? HVD_OK : rc;
    pthread_mutex_unlock(&persistents->lock);
    return rc;
}

/* Giving memory back makes the host wait for the GPU. So it is done only while neither hvd nor one of its
 * graphs has work there. */
static void sweep(struct persistents *persistents)
{
    struct persistent *next = NULL;
    bool any = false;
    if (!atomic_load(&persistents->any_freed) || batch_queue_has_launched(persistents->batch_queue) ||
        batch_queue_is_in_nccl(persistents->batch_queue) || atomic_load(&persistents->any_start) ||
        atomic_load(&persistents->captured) > 0)
        return;
    pthread_mutex_lock(&persistents->lock);
    for (struct persistent *at = LIST_FIRST(&persistents->list); at != NULL; at = next) {
        next = LIST_NEXT(at, link);
        if (at->freed && at->starts == 0)
            destroy_locked(at);
        else
            any |= at->freed;
    }
    atomic_store(&persistents->any_freed, any);
    pthread_mutex_unlock(&persistents->lock);
}

int persistents_run(struct persistents *persistents, bool *movedp, struct hvd_error *err)
{
    struct persistent_start *start = first_start(persistents);
    bool moved = true;
    int rc = HVD_OK;
    while (start != NULL && moved && rc == HVD_OK) {
        rc = run_start(persistents, start, &moved, err);
        *movedp |= moved;
        end_refused(persistents); /* which waited behind a start of another process set */
        start = first_start(persistents);
    }
    if (rc == HVD_OK)
        rc = watch_graphs(persistents, err);
    sweep(persistents);
    return rc;
}

void persistents_started(struct persistents *persistents, struct batch *launch)
{
    pthread_mutex_lock(&persistents->lock);
    launch->persistent->starts--;
    pthread_mutex_unlock(&persistents->lock);
    batch_free(launch);
}

int64_t persistents_deadline(const struct persistents *persistents)
{
    if (persistents->is_launching)
        return clock_us() + NCCL_TEST_US;
    return atomic_load(&persistents->captured) > 0 ? clock_us() + NCCL_WATCH_US : INT64_MAX;
}

bool persistents_use(struct persistents *persistents, const struct gpu_memory *memory)
{
    bool found = false;
    pthread_mutex_lock(&persistents->lock);
    for (const struct persistent *at = LIST_FIRST(&persistents->list); at != NULL && !found;
         at = LIST_NEXT(at, link))
        found = batches_use(at->batches, memory);
    pthread_mutex_unlock(&persistents->lock);
    return found;
}

/* ---- Ends --------------------------------------------------------------------------------------- */

/* Operations of [set] (NULL: all) cannot be started any more. */
static void refuse_starts(struct persistents *persistents, const struct process_set *set, int status,
                          const char *reason)
{
    pthread_mutex_lock(&persistents->lock);
    for (struct persistent *at = LIST_FIRST(&persistents->list); at != NULL; at = LIST_NEXT(at, link)) {
        bool ends = set == NULL || (at->batches != NULL && at->batches->set == set);
        if (ends && at->status == HVD_OK) {
            at->status = status;
            error_set(&at->reason, status, "%s", reason);
        }
    }
    pthread_mutex_unlock(&persistents->lock);
}

void persistents_end(struct persistents *persistents, const struct process_set *set, int status,
                     const char *reason)
{
    refuse_starts(persistents, set, status, reason);
    end_refused(persistents);
}
