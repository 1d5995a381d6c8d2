/* run.c: batches run one after another, in the agreed order, each one step at a time. */
#include "flow/batch/run.h"

#include "base/clock.h"
#include "flow/batch/communicator.h"
#include "flow/batch/direct.h"
#include "flow/batch/row_counts.h"
#include "flow/batch/staging.h"
#include "flow/gpu_memory.h"
#include "flow/set_change.h"

void run_init(struct run *run)
{
    run->host = (struct host_steps){.control = run->control,
                                    .backends = run->backends,
                                    .failure = run->failure,
                                    .batch_queue = run->batch_queue};
    run->direct = (struct direct_steps){
        .backends = run->backends, .batch_queue = run->batch_queue, .persistents = run->persistents};
}

void run_fini(struct run *run)
{
    host_steps_fini(&run->host);
}

/* ---- Ends -------------------------------------------------------------------------------------- */

static void remove_set(struct run *run, struct batch *batch)
{
    struct hvd_error reason;
    error_set(&reason, HVD_ERR_SET, "process set %d was removed", batch_set_change(batch)->number);
    if (batch->set != NULL)
        persistents_end(run->persistents, batch->set, HVD_ERR_SET, reason.text);
    set_change_remove(run->backends, &batch->set);
}

/* [batch] has left the queue. */
static void end_batch(struct run *run, struct batch *batch, int status, const char *reason)
{
    if (batch_start(batch) != NULL) {
        persistents_started(run->persistents, batch);
        return;
    }
    if (batch->stage == BATCH_SET_REMOVE)
        remove_set(run, batch);
    batch_queue_end(run->batch_queue, batch, status, reason);
}

static void end_first(struct run *run, int status, const char *reason)
{
    end_batch(run, batch_queue_remove_first(run->batch_queue), status, reason);
}

static int test_event(const struct run *run, const struct batch *batch, struct hvd_error *err)
{
    return batch_uses_nccl(batch) ? direct_test_event(run->batch_queue, batch, err)
                                  : batch_queue_test_event(run->batch_queue, batch, err);
}

/* End, in order, the batches that the GPU has done, without waiting for the GPU. */
static int end_launched(struct run *run, bool *movedp, struct hvd_error *err)
{
    int rc = HVD_OK;
    while (run->batch_queue->launched != NULL && rc == HVD_OK) {
        rc = test_event(run, run->batch_queue->launched, err);
        if (rc == HVD_OK) {
            end_batch(run, batch_queue_remove_launched(run->batch_queue), HVD_OK, NULL);
            *movedp = true;
        }
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* Batches with work in the GPU's queue come first, in its order, because NCCL may wait for what is ahead of
 * it there. */
static void abandon_communicators(const struct run *run)
{
    const struct batch *first = run->batch_queue->first;
    for (const struct batch *launched = run->batch_queue->launched; launched != NULL;
         launched = launched->next)
        direct_abandon(launched);
    if (first != NULL)
        direct_abandon(first);
    communicators_abandon(run->set_registry);
}

void run_abandon(struct run *run, int status, const char *reason)
{
    struct batch_queue *batch_queue = run->batch_queue;
    const struct batch *first = batch_queue->first;
    if (first != NULL)
        host_abandon(&run->host, first);
    abandon_communicators(run);
    if (batch_queue->launched != NULL || run->persistents->is_launching ||
        (first != NULL && first->gpu != NULL))
        gpu_settle(run->gpu);
    persistents_end(run->persistents, NULL, status, reason);
    while (batch_queue->launched != NULL)
        end_batch(run, batch_queue_remove_launched(batch_queue), status, reason);
    while (batch_queue->first != NULL) {
        batch_queue_part_companions(batch_queue, batch_queue->first);
        if (batch_queue->first->gpu != NULL)
            staging_return(batch_queue->first);
        end_first(run, status, reason);
    }
}

/* ---- Process sets ------------------------------------------------------------------------------ */

/* Has the GPU done all that NCCL was given? */
static bool nccl_is_idle(const struct run *run)
{
    return !batch_queue_has_launched(run->batch_queue) && !run->persistents->is_launching;
}

static int add_set(struct run *run, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    struct set_registry *set_registry = run->set_registry;
    const struct process_set *all = set_registry_get(set_registry, HVD_ALL_RANKS);
    const struct batch_set_change *change = batch_set_change(batch);
    bool splits = communicator_splits(all, batch);
    *movedp = host_may_open(&run->host, change->backends) && (!splits || nccl_is_idle(run));
    if (!*movedp)
        return HVD_OK;
    int rc = communicator_split(all, batch, movedp, err);
    if (rc != HVD_OK || !*movedp)
        return rc;
    rc = set_change_add(set_registry, run->backends, run->control->rank, change, err);
    if (rc == HVD_OK && splits)
        rc = communicator_take_split(all, set_registry_get(set_registry, change->number), err);
    if (rc == HVD_OK)
        end_first(run, HVD_OK, NULL);
    return rc;
}

/* The removed set itself goes where the batch ends. */
static void remove_set_when_idle(struct run *run, const struct batch *batch, bool *movedp)
{
    *movedp = batch->set == NULL || batch->set->nccl == NULL || nccl_is_idle(run);
    if (*movedp)
        end_first(run, HVD_OK, NULL);
}

/* ---- The next step of the first batch ---------------------------------------------------------- */

/* What the backend carried for the batch has come: its transfer, or what the members tell each other first.
 */
static int test_transfer(struct run *run, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    bool done = false;
    int rc = host_test(&run->host, batch, &done, movedp, err);
    if (rc != HVD_OK || !done)
        return rc;
    if (batch_direct(batch) != NULL && batch_direct(batch)->exchange != NULL)
        return communicator_exchanged(batch, err);
    if (batch->counts.exchanging)
        return host_apply_row_counts(&run->host, batch, err);
    host_transferred(&run->host, batch);
    return HVD_OK;
}

/* A persistent operation ends where its members find that NCCL cannot carry it. */
static int step_direct(struct run *run, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    bool connects = batch->stage == BATCH_CONNECT;
    int rc = direct_step(&run->direct, batch, movedp, err);
    if (connects && batch_direct(batch) == NULL && batch->persistent != NULL)
        end_first(run, HVD_ERR_UNSUPPORTED, batch->set->nccl_refusal.text);
    return rc;
}

static void end_or_store(struct run *run, struct batch *batch)
{
    if (batch->gpu != NULL)
        batch->stage = BATCH_STORE;
    else
        end_first(run, HVD_OK, NULL);
}

/* [*movedp]: whether the step could be made. */
static int run_step(struct run *run, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    *movedp = true;
    switch (batch->stage) {
    case BATCH_SET_ADD:
        return add_set(run, batch, movedp, err);
    case BATCH_SET_REMOVE:
        remove_set_when_idle(run, batch, movedp);
        return HVD_OK;
    case BATCH_ROW_COUNTS:
        return row_counts_exchange(batch, err);
    case BATCH_START:
        return host_start(&run->host, batch, movedp, err);
    case BATCH_RUN:
        return test_transfer(run, batch, movedp, err);
    case BATCH_DONE:
        end_or_store(run, batch);
        return HVD_OK;
    default:
        return batch_direct(batch) != NULL ? step_direct(run, batch, movedp, err)
                                           : host_step(&run->host, batch, movedp, err);
    }
}

/* The second batch is copied from the GPU while the first is at work in host memory. What its tensors wait
 * for may come late, and the first must not wait for the GPU any more: its results have got their memory.
 * Until the rows of the first are known, tensors that are cut off from it may come in between. */
static int fetch_ahead(struct run *run, struct hvd_error *err)
{
    const struct batch *first = run->batch_queue->first;
    struct batch *next = first != NULL ? first->next : NULL;
    bool moved = false;
    int rc = HVD_OK;
    if (next == NULL || first->gpu == NULL || batch_host(first) == NULL || first->stage <= BATCH_LAY_OUT ||
        first->stage >= BATCH_STORE || !batch_has_row_counts(first))
        return HVD_OK;
    if (next->stage == BATCH_CONNECT && next->set->nccl_refused && next->persistent == NULL)
        rc = direct_connect(&run->direct, next, &moved, err);
    return rc == HVD_OK && next->stage == BATCH_FETCH ? host_fetch(&run->host, next, err) : rc;
}

/* Memory that the program has freed goes back to the GPU when no batch uses it any more. */
static void destroy_freed_memory(struct run *run)
{
    const struct batch_queue *batch_queue = run->batch_queue;
    int64_t bytes = 0;
    bool in_nccl = batch_queue_is_in_nccl(batch_queue) || run->persistents->is_launching;
    struct gpu_memory *memory = in_nccl ? NULL : gpu_memory_freed(run->gpu);
    while (memory != NULL && !batches_use(batch_queue->first, memory) &&
           !batches_use(batch_queue->launched, memory) && !persistents_use(run->persistents, memory) &&
           communicators_forget(run->set_registry, gpu_memory_bytes(memory, &bytes))) {
        gpu_memory_destroy(memory);
        memory = gpu_memory_freed(run->gpu);
    }
}

/* Is the next step too short to wait for another round? */
static bool is_quick(const struct batch *batch)
{
    return batch_direct(batch) != NULL || batch->stage == BATCH_LAY_OUT || batch->stage == BATCH_START ||
           batch->stage == BATCH_DONE || batch->layout.bytes <= HOST_QUICK_BYTES;
}

int run_advance(struct run *run, bool *movedp, struct hvd_error *err)
{
    struct batch_queue *batch_queue = run->batch_queue;
    struct batch *batch = batch_queue->first;
    const struct failure *failure = run->failure;
    bool again = batch != NULL && !failure->announced && !failure_is_suspected(failure);
    int rc = end_launched(run, movedp, err);
    if (!failure->announced)
        destroy_freed_memory(run);
    while (again && rc == HVD_OK) {
        bool ends = batch->stage >= BATCH_STORE;
        bool moved = false;
        rc = run_step(run, batch, &moved, err);
        *movedp |= moved;
        batch_queue->moves += moved;
        again = moved && !ends && rc == HVD_OK && !failure_is_suspected(failure) &&
                batch == batch_queue->first && is_quick(batch);
    }
    if (rc == HVD_OK && !failure->announced && !failure_is_suspected(failure))
        rc = persistents_run(run->persistents, movedp, err);
    return rc == HVD_OK && !failure->announced ? fetch_ahead(run, err) : rc;
}

/* ---- Questions --------------------------------------------------------------------------------- */

/* NCCL has no descriptor that says when it goes on, or has failed. */
static int64_t direct_deadline(const struct run *run)
{
    const struct batch *first = run->batch_queue->first;
    const struct batch *launched = run->batch_queue->launched;
    if (first != NULL && (first->stage == BATCH_CONNECT || batch_is_in_nccl(first)))
        return clock_us() + NCCL_TEST_US;
    int64_t persistent_us = persistents_deadline(run->persistents);
    int64_t launched_us =
        launched != NULL && batch_uses_nccl(launched) ? clock_us() + NCCL_WATCH_US : INT64_MAX;
    return persistent_us < launched_us ? persistent_us : launched_us;
}

int64_t run_deadline(const struct run *run)
{
    const struct batch *first = run->batch_queue->first;
    int64_t direct_us = direct_deadline(run);
    if (!run_is_busy(run))
        return direct_us;
    int64_t backend_us = backends_deadline(run->backends, first->set, first->backend);
    return backend_us < direct_us ? backend_us : direct_us;
}

int run_waits_for(const struct run *run, const struct batch *batch)
{
    return batch->stage == BATCH_RUN ? backends_waits_for(run->backends, batch->set, batch->backend) : -1;
}

bool run_is_busy(const struct run *run)
{
    const struct batch *first = run->batch_queue->first;
    return first != NULL && first->stage == BATCH_RUN && !failure_is_suspected(run->failure);
}

bool run_must_poll(const struct run *run)
{
    return run_is_busy(run) && backend_table[run->batch_queue->first->backend]->polled;
}
