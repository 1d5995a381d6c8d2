/* batch_queue.c: batches run one after another, in the agreed order, each one step at a time. */
#include "flow/batch/batch_queue.h"

#include <stdlib.h>

#include "flow/batch/adasum.h"
#include "flow/batch/communicator.h"
#include "flow/batch/direct.h"
#include "flow/batch/row_counts.h"
#include "flow/batch/staging.h"
#include "flow/gpu_memory.h"
#include "flow/set_change.h"
#include "base/clock.h"

/* A batch of at most this many bytes goes on until it has to wait; larger ones take one step in a round. */
#define QUICK_BYTES 16384

/* How often such a batch is tested before the round goes on: its other members are at work on it too, and
 * will be done soon. */
#define QUICK_TESTS 8

void batch_queue_init(struct batch_queue *batch_queue)
{
    batch_queue->tail = &batch_queue->first;
    batch_queue->launched_tail = &batch_queue->launched;
    persistents_init(&batch_queue->persistents);
}

void batch_queue_append(struct batch_queue *batch_queue, struct batch *batch)
{
    batch->next = NULL;
    *batch_queue->tail = batch;
    batch_queue->tail = &batch->next;
    batch_queue->count++;
    trials_batch_queued(batch_queue->trials);
    for (const struct batch *companion = batch->companions; companion != NULL; companion = companion->next)
        trials_batch_queued(batch_queue->trials);
}

/* Put the companions of [batch] behind it in the queue, as batches of their own. */
static void part_companions(struct batch_queue *batch_queue, struct batch *batch)
{
    struct batch *last = batch->companions;
    if (last == NULL)
        return;
    for (batch_queue->count++; last->next != NULL; last = last->next)
        batch_queue->count++;
    last->next = batch->next;
    if (last->next == NULL)
        batch_queue->tail = &last->next;
    batch->next = batch->companions;
    batch->companions = NULL;
}

/* [rest] was cut off from [batch], and runs after it. */
static void insert_behind(struct batch_queue *batch_queue, struct batch *batch, struct batch *rest)
{
    rest->next = batch->next;
    batch->next = rest;
    if (rest->next == NULL)
        batch_queue->tail = &rest->next;
    batch_queue->count++;
}

static struct batch *remove_first(struct batch_queue *batch_queue)
{
    struct batch *batch = batch_queue->first;
    batch_queue->first = batch->next;
    if (batch_queue->first == NULL)
        batch_queue->tail = &batch_queue->first;
    batch_queue->count--;
    return batch;
}

/* ---- The end of a batch ----------------------------------------------------------------------- */

static struct batch *remove_launched(struct batch_queue *batch_queue)
{
    struct batch *batch = batch_queue->launched;
    batch_queue->launched = batch->next;
    if (batch_queue->launched == NULL)
        batch_queue->launched_tail = &batch_queue->launched;
    return batch;
}

static void end_tensors(struct batch_queue *batch_queue, struct batch *batch, int status, const char *reason)
{
    struct request_tensor *next = NULL;
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = next) {
        next = tensor->next;
        finish_tensor(batch_queue->finish, tensor, status, reason);
    }
    batch->tensors = NULL;
    batch->tail = &batch->tensors;
}

static void remove_set(struct batch_queue *batch_queue, struct batch *batch)
{
    struct hvd_error reason;
    error_set(&reason, HVD_ERR_SET, "process set %d was removed", batch->set);
    if (batch->team != NULL)
        persistents_end(batch_queue, batch->team, HVD_ERR_SET, reason.text);
    set_change_remove(batch_queue->backends, batch);
}

/* [batch] has been removed from its list. */
static void end_batch(struct batch_queue *batch_queue, struct batch *batch, int status, const char *reason)
{
    if (batch->starts) {
        persistents_started(&batch_queue->persistents, batch);
        return;
    }
    finish_read_clock(batch_queue->finish);
    trials_batch_done(batch_queue->trials, batch->bytes, batch_queue->first != NULL);
    end_tensors(batch_queue, batch, status, reason);
    if (batch->stage == BATCH_SET_REMOVE)
        remove_set(batch_queue, batch);
    if (batch->request != NULL)
        finish_request(batch_queue->finish, batch->request, status, reason);
    batch_free(batch);
}

static void end_first(struct batch_queue *batch_queue, int status, const char *reason)
{
    end_batch(batch_queue, remove_first(batch_queue), status, reason);
}

/* Has the GPU done what it was given for [batch]? It wakes a driver that sleeps while it has not. */
static int test_event(struct batch_queue *batch_queue, const struct batch *batch, struct hvd_error *err)
{
    int rc = gpu_event_status(batch->event, err);
    if (rc == HVD_IN_PROGRESS && batch->direct)
        rc = direct_watch(batch, err);
    if (rc == HVD_IN_PROGRESS && batch_queue->armed)
        gpu_notify(batch_queue->gpu, batch->event);
    return rc;
}

/* End, in order, the batches that the GPU has done, without waiting for the GPU. */
static int end_launched(struct batch_queue *batch_queue, bool *movedp, struct hvd_error *err)
{
    int rc = HVD_OK;
    while (batch_queue->launched != NULL && rc == HVD_OK) {
        rc = test_event(batch_queue, batch_queue->launched, err);
        if (rc == HVD_OK) {
            end_batch(batch_queue, remove_launched(batch_queue), HVD_OK, NULL);
            batch_queue->moves++;
            batch_queue->ends++;
            *movedp = true;
        }
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* Batches with work in the GPU's queue come first, in its order, because NCCL may wait for what is ahead of
 * it there. */
static void abandon_communicators(const struct batch_queue *batch_queue)
{
    const struct batch *batch = batch_queue->first;
    for (const struct batch *launched = batch_queue->launched; launched != NULL; launched = launched->next)
        direct_abandon(launched);
    if (batch != NULL)
        direct_abandon(batch);
    communicators_abandon(batch_queue->set_registry);
}

/* A CUDA-aware MPI calls CUDA also when it gives up memory of the GPU. */
static void abort_transfer(const struct batch_queue *batch_queue, const struct batch *batch)
{
    int mode = 0;
    bool entered = batch->transfer.on_gpu && gpu_enter(batch->gpu, &mode, NULL) == HVD_OK;
    backends_abort(batch_queue->backends, batch->team, batch->backend);
    if (entered)
        gpu_leave(batch->gpu, mode);
}

void batch_queue_abandon(struct batch_queue *batch_queue, int status, const char *reason)
{
    const struct batch *batch = batch_queue->first;
    if (batch != NULL && batch->stage == BATCH_RUN)
        abort_transfer(batch_queue, batch);
    abandon_communicators(batch_queue);
    if (batch_queue->launched != NULL || batch_queue->persistents.is_launching ||
        (batch != NULL && batch->gpu != NULL))
        gpu_settle(batch_queue->gpu);
    persistents_end(batch_queue, NULL, status, reason);
    while (batch_queue->launched != NULL)
        end_batch(batch_queue, remove_launched(batch_queue), status, reason);
    while (batch_queue->first != NULL) {
        part_companions(batch_queue, batch_queue->first);
        if (batch_queue->first->gpu != NULL)
            staging_return(batch_queue->first);
        end_first(batch_queue, status, reason);
    }
}

void batch_queue_fini(struct batch_queue *batch_queue)
{
    persistents_fini(&batch_queue->persistents);
    free(batch_queue->buffer);
    batch_queue->buffer = NULL;
}

/* ---- The steps of a batch ------------------------------------------------------------------------ */

static void trace_batch(struct batch_queue *batch_queue, const struct batch *batch, enum trace_step step)
{
    struct finish *finish = batch_queue->finish;
    finish_read_clock(finish);
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL && finish->trace != NULL;
         tensor = tensor->next)
        trace_step(finish->trace, &tensor->request->trace, step, finish->now_us);
}

static bool ensure_buffer(struct batch_queue *batch_queue, int64_t bytes)
{
    if (bytes <= batch_queue->buffer_bytes)
        return true;
    void *buffer = NULL;
    if (posix_memalign(&buffer, 4096, (size_t)bytes) != 0)
        return false;
    free(batch_queue->buffer);
    batch_queue->buffer = buffer;
    batch_queue->buffer_bytes = bytes;
    return true;
}

static int lay_out_batch(struct batch_queue *batch_queue, struct batch *batch, struct hvd_error *err)
{
    int rc = batch->direct ? direct_lay_out(batch, err) : batch_plan(batch, err);
    if (batch->direct && batch->stage == BATCH_DONE)
        part_companions(batch_queue, batch);
    if (batch->direct)
        return rc;
    if (rc == HVD_OK && !ensure_buffer(batch_queue, batch->buffer_bytes))
        rc = error_set(err, HVD_ERR_NO_MEMORY,
                       "no memory for a fusion buffer of %lld bytes; lower --hvd-fusion",
                       (long long)batch->buffer_bytes);
    if (rc != HVD_OK)
        return rc;
    batch_lay_out(batch, batch_queue->buffer);
    if (batch->stage == BATCH_PACK)
        trace_batch(batch_queue, batch, TRACE_PACKING);
    return HVD_OK;
}

/* May this rank open those backends of [mask] that are not open? It blocks until the others come to the same
 * batch, and so must wait while messages of ours are still in this process: the others may need them to get
 * there. */
static bool may_open(const struct batch_queue *batch_queue, uint32_t mask)
{
    return !backends_may_block(batch_queue->backends, mask) ||
           batch_queue->control->ops->flushed(batch_queue->control);
}

static int start_transfer(struct batch_queue *batch_queue, struct batch *batch, bool *movedp,
                          struct hvd_error *err)
{
    if (batch->backend < 0 || batch->backend >= BACKEND_COUNT)
        return error_set(err, HVD_ERR_SYSTEM, "the ranks agreed on backend %d, which does not exist",
                         batch->backend);
    *movedp = may_open(batch_queue, UINT32_C(1) << batch->backend);
    if (!*movedp)
        return HVD_OK;
    trace_batch(batch_queue, batch, TRACE_TRANSFERRING);
    int rc = backends_start(batch_queue->backends, batch->team, batch->backend, &batch->transfer, err);
    if (rc == HVD_OK)
        batch->stage = BATCH_RUN;
    return rc;
}

/* Now that all rows are known, the tensors may together exceed the fusion size. Those beyond it become a
 * batch of their own, which runs next. */
static int apply_row_counts(struct batch_queue *batch_queue, struct batch *batch, struct hvd_error *err)
{
    struct batch *rest = NULL;
    int rc = row_counts_apply(batch, batch->fusion_bytes, &rest, err);
    if (rest != NULL)
        insert_behind(batch_queue, batch, rest);
    return rc;
}

static int transfer_done(struct batch_queue *batch_queue, struct batch *batch, struct hvd_error *err)
{
    if (batch->exchange != NULL)
        return communicator_exchanged(batch, err);
    if (batch->exchanging_counts)
        return apply_row_counts(batch_queue, batch, err);
    batch_transfer_done(batch);
    if (batch->stage == BATCH_UNPACK)
        trace_batch(batch_queue, batch, TRACE_UNPACKING);
    return HVD_OK;
}

/* A CUDA-aware MPI calls CUDA itself, and so needs the GPU's context. */
static int test_on_gpu(struct batch_queue *batch_queue, const struct batch *batch, bool *movedp, int *rankp,
                       struct hvd_error *err)
{
    int mode = 0;
    int rc = gpu_enter(batch->gpu, &mode, err);
    if (rc != HVD_OK)
        return rc;
    rc = backends_test(batch_queue->backends, batch->team, batch->backend, movedp, rankp, err);
    gpu_leave(batch->gpu, mode);
    return rc;
}

static int test_transfer(struct batch_queue *batch_queue, struct batch *batch, bool *movedp,
                         struct hvd_error *err)
{
    int lost_rank = batch_queue->control->rank;
    int tests = batch->bytes <= QUICK_BYTES && backend_table[batch->backend]->polled ? QUICK_TESTS : 1;
    int rc = HVD_IN_PROGRESS;
    *movedp = false;
    for (; tests > 0 && rc == HVD_IN_PROGRESS && !*movedp; tests--)
        rc = batch->transfer.on_gpu
                 ? test_on_gpu(batch_queue, batch, movedp, &lost_rank, err)
                 : backends_test(batch_queue->backends, batch->team, batch->backend, movedp, &lost_rank, err);
    if (rc == HVD_IN_PROGRESS)
        return HVD_OK;
    *movedp = true;
    if (rc == HVD_OK)
        return transfer_done(batch_queue, batch, err);
    if (rc != HVD_ERR_RANK_LOST)
        return rc;
    failure_suspect(batch_queue->failure, lost_rank, err);
    return HVD_OK;
}

/* ---- On the GPU ------------------------------------------------------------------------------- */

static int connect_gpus(struct batch_queue *batch_queue, struct batch *batch, bool *movedp,
                        struct hvd_error *err)
{
    *movedp = !batch_queue->persistents.is_launching;
    if (!*movedp)
        return HVD_OK;
    int rc = communicator_connect(batch_queue->backends, batch, movedp, err);
    if (!batch->direct)
        part_companions(batch_queue, batch);
    if (!batch->direct && batch->persistent != NULL)
        end_first(batch_queue, HVD_ERR_UNSUPPORTED, batch->team->nccl_refusal.text);
    return rc;
}

/* All that the first batch needs is on the GPU: the persistent operation keeps it. */
static void keep_first(struct batch_queue *batch_queue)
{
    struct batch *leader = remove_first(batch_queue);
    finish_read_clock(batch_queue->finish);
    trials_batch_done(batch_queue->trials, 0, batch_queue->first != NULL);
    persistent_keep(leader->persistent, leader);
    for (struct batch *batch = leader->companions; batch != NULL; batch = batch->next)
        end_tensors(batch_queue, batch, HVD_OK, NULL);
    end_tensors(batch_queue, leader, HVD_OK, NULL);
}

static int keep(struct batch_queue *batch_queue, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    int rc = batch->event == NULL ? direct_prepare(batch, err) : HVD_OK;
    if (rc == HVD_OK && batch->event == NULL)
        rc = gpu_mark_own(batch->gpu, &batch->event, err);
    if (rc == HVD_OK)
        rc = test_event(batch_queue, batch, err);
    *movedp = rc == HVD_OK;
    if (rc == HVD_OK)
        keep_first(batch_queue);
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* Take the next side. The GPU copies into it only after it has copied out the results of earlier batches. */
static int take_side(struct batch_queue *batch_queue, struct batch *batch, struct hvd_error *err)
{
    int rc = HVD_OK;
    batch_queue->side = (batch_queue->side + 1) % GPU_BLOCK_SIDES;
    batch->side = batch_queue->side;
    for (const struct batch *stored = batch_queue->launched; stored != NULL && rc == HVD_OK;
         stored = stored->next)
        if (!stored->direct && stored->side == batch->side)
            rc = gpu_await(batch->gpu, stored->event, err);
    return rc;
}

/* A rank that has joined has nothing to copy, but its batch is cut as that of the others. */
static int fetch(struct batch_queue *batch_queue, struct batch *batch, struct hvd_error *err)
{
    struct batch *rest = NULL;
    int rc = staging_cut(batch, &rest, err);
    if (rest != NULL)
        insert_behind(batch_queue, batch, rest);
    batch->stage = batch->gpu != NULL ? BATCH_FETCHING : BATCH_LAY_OUT;
    batch->handed = batch->gpu != NULL && staging_can_hand(batch) &&
                    backends_take_gpu(batch_queue->backends, batch->backend);
    if (rc == HVD_OK && batch->gpu != NULL)
        rc = take_side(batch_queue, batch, err);
    if (rc == HVD_OK && batch->gpu != NULL)
        rc = staging_fetch(batch, err);
    return rc;
}

/* The second batch is copied from the GPU while the first is at work in host memory. What its tensors wait
 * for may come late, and the first must not wait for the GPU any more: its results have got their memory.
 * Until the rows of the first are known, tensors that are cut off from it may come in between. */
static int fetch_ahead(struct batch_queue *batch_queue, struct hvd_error *err)
{
    const struct batch *first = batch_queue->first;
    struct batch *next = first != NULL ? first->next : NULL;
    bool moved = false;
    int rc = HVD_OK;
    if (next == NULL || first->gpu == NULL || first->direct || first->stage <= BATCH_LAY_OUT ||
        first->stage >= BATCH_STORE || !batch_has_row_counts(first))
        return HVD_OK;
    if (next->stage == BATCH_CONNECT && next->team->nccl_refused && next->persistent == NULL)
        rc = connect_gpus(batch_queue, next, &moved, err);
    return rc == HVD_OK && next->stage == BATCH_FETCH ? fetch(batch_queue, next, err) : rc;
}

static int test_fetched(struct batch_queue *batch_queue, struct batch *batch, bool *movedp,
                        struct hvd_error *err)
{
    int rc = test_event(batch_queue, batch, err);
    *movedp = rc == HVD_OK;
    if (rc == HVD_OK)
        batch->stage = batch_has_row_counts(batch) ? BATCH_LAY_OUT : BATCH_ROW_COUNTS;
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* Callers that wait for the launch of their operation need not wait for the GPU. */
static void launch_tensors(struct batch_queue *batch_queue, struct batch *batch)
{
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        if (--tensor->request->tensors_to_launch == 0 && !tensor->request->placeholder &&
            tensor->request->first_error == HVD_OK)
            finish_launch(batch_queue->finish, tensor->request, batch->event);
}

static int launch(struct batch_queue *batch_queue, struct batch *batch, struct hvd_error *err)
{
    trace_batch(batch_queue, batch, TRACE_TRANSFERRING);
    for (const struct batch *companion = batch->companions; companion != NULL; companion = companion->next)
        trace_batch(batch_queue, companion, TRACE_TRANSFERRING);
    return direct_launch(batch, gpu_stream(batch->gpu), err);
}

static int test_launched(struct batch_queue *batch_queue, struct batch *batch, bool *movedp,
                         struct hvd_error *err)
{
    int rc = direct_test_launched(batch, movedp, err);
    if (rc == HVD_OK && *movedp)
        part_companions(batch_queue, batch);
    return rc;
}

static int store(struct batch_queue *batch_queue, struct batch *batch, struct hvd_error *err)
{
    int rc = batch->direct ? gpu_mark_own(batch->gpu, &batch->event, err) : staging_store(batch, err);
    if (rc != HVD_OK)
        return rc;
    remove_first(batch_queue);
    batch->stage = BATCH_DONE;
    batch_queue_append_launched(batch_queue, batch);
    launch_tensors(batch_queue, batch);
    return HVD_OK;
}

void batch_queue_append_launched(struct batch_queue *batch_queue, struct batch *batch)
{
    batch->next = NULL;
    *batch_queue->launched_tail = batch;
    batch_queue->launched_tail = &batch->next;
}

bool batch_queue_is_empty(const struct batch_queue *batch_queue)
{
    return batch_queue->first == NULL && batch_queue->launched == NULL;
}

/* Has the GPU done all that NCCL was given? */
static bool nccl_is_idle(const struct batch_queue *batch_queue)
{
    return batch_queue->launched == NULL && !batch_queue->persistents.is_launching;
}

static int add_set(struct batch_queue *batch_queue, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    struct set_registry *set_registry = batch_queue->set_registry;
    const struct process_set *all = set_registry_get(set_registry, HVD_ALL_RANKS);
    *movedp = may_open(batch_queue, batch->backends) && (!all->nccl_ready || nccl_is_idle(batch_queue));
    if (!*movedp)
        return HVD_OK;
    int rc = communicator_split(all, batch, movedp, err);
    if (rc != HVD_OK || !*movedp)
        return rc;
    rc = set_change_add(set_registry, batch_queue->backends, batch_queue->control->rank, batch, err);
    if (rc == HVD_OK)
        rc = communicator_take_split(all, set_registry_get(set_registry, batch->set), err);
    if (rc == HVD_OK)
        end_first(batch_queue, HVD_OK, NULL);
    return rc;
}

/* One step of the first batch, [batch]. [*movedp]: whether it could be made. */
static int run_step(struct batch_queue *batch_queue, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    *movedp = true;
    switch (batch->stage) {
    case BATCH_CONNECT:
        return connect_gpus(batch_queue, batch, movedp, err);
    case BATCH_CONNECTING:
        return communicator_test(batch, movedp, err);
    case BATCH_FETCH:
        return fetch(batch_queue, batch, err);
    case BATCH_FETCHING:
        return test_fetched(batch_queue, batch, movedp, err);
    case BATCH_ROW_COUNTS:
        return row_counts_exchange(batch, err);
    case BATCH_LAY_OUT:
        return lay_out_batch(batch_queue, batch, err);
    case BATCH_PACK:
        batch_pack(batch);
        return HVD_OK;
    case BATCH_START:
        return start_transfer(batch_queue, batch, movedp, err);
    case BATCH_LAUNCH:
        *movedp = !batch_queue->persistents.is_launching;
        return *movedp ? launch(batch_queue, batch, err) : HVD_OK;
    case BATCH_LAUNCHING:
        return test_launched(batch_queue, batch, movedp, err);
    case BATCH_KEEP:
        return keep(batch_queue, batch, movedp, err);
    case BATCH_RUN:
        return test_transfer(batch_queue, batch, movedp, err);
    case BATCH_COMBINE:
        adasum_combine(batch);
        return HVD_OK;
    case BATCH_UNPACK:
        batch_unpack(batch);
        return HVD_OK;
    case BATCH_SET_ADD:
        return add_set(batch_queue, batch, movedp, err);
    case BATCH_STORE:
        return store(batch_queue, batch, err);
    case BATCH_DONE:
        if (batch->gpu != NULL) {
            batch->stage = BATCH_STORE;
            return HVD_OK;
        }
        end_first(batch_queue, HVD_OK, NULL);
        return HVD_OK;
    case BATCH_SET_REMOVE:
        *movedp = batch->team == NULL || batch->team->nccl == NULL || nccl_is_idle(batch_queue);
        if (*movedp)
            end_first(batch_queue, HVD_OK, NULL);
        return HVD_OK;
    }
    return HVD_OK;
}

/* ---- Memory of hvd_alloc_on -------------------------------------------------------------------- */

bool batch_queue_is_in_nccl(const struct batch_queue *batch_queue)
{
    const struct batch *batch = batch_queue->first;
    return batch != NULL &&
           (batch->stage == BATCH_CONNECTING || batch->stage == BATCH_LAUNCHING || batch->splitting);
}

bool batches_use(const struct batch *batches, const struct gpu_memory *memory)
{
    bool found = false;
    for (const struct batch *batch = batches; batch != NULL && !found; batch = batch->next)
        found = batch->memory == memory ||
                batch->stage == BATCH_SET_REMOVE /* which has a communicator too */ ||
                batches_use(batch->companions, memory);
    return found;
}

/* Memory that the program has freed goes back to the GPU when no batch uses it any more. */
static void destroy_freed_memory(struct batch_queue *batch_queue)
{
    int64_t bytes = 0;
    bool in_nccl = batch_queue_is_in_nccl(batch_queue) || batch_queue->persistents.is_launching;
    struct gpu_memory *memory = in_nccl ? NULL : gpu_memory_freed(batch_queue->gpu);
    while (memory != NULL && !batches_use(batch_queue->first, memory) &&
           !batches_use(batch_queue->launched, memory) &&
           !persistents_use(&batch_queue->persistents, memory) &&
           communicators_forget(batch_queue->set_registry, gpu_memory_bytes(memory, &bytes))) {
        gpu_memory_destroy(memory);
        memory = gpu_memory_freed(batch_queue->gpu);
    }
}

/* Is the next step too short to wait for another round? */
static bool is_quick(const struct batch *batch)
{
    return batch->direct || batch->stage == BATCH_LAY_OUT || batch->stage == BATCH_START ||
           batch->stage == BATCH_DONE || batch->bytes <= QUICK_BYTES;
}

int batch_queue_run(struct batch_queue *batch_queue, bool *movedp, struct hvd_error *err)
{
    struct batch *batch = batch_queue->first;
    const struct failure *failure = batch_queue->failure;
    bool again = batch != NULL && !failure->announced && !failure_is_suspected(failure);
    int rc = end_launched(batch_queue, movedp, err);
    if (!failure->announced)
        destroy_freed_memory(batch_queue);
    while (again && rc == HVD_OK) {
        bool ends = batch->stage >= BATCH_STORE;
        bool moved = false;
        rc = run_step(batch_queue, batch, &moved, err);
        *movedp |= moved;
        batch_queue->moves += moved;
        again = moved && !ends && rc == HVD_OK && !failure_is_suspected(failure) &&
                batch == batch_queue->first && is_quick(batch);
    }
    if (rc == HVD_OK && !failure->announced && !failure_is_suspected(failure))
        rc = persistents_run(batch_queue, movedp, err);
    return rc == HVD_OK && !failure->announced ? fetch_ahead(batch_queue, err) : rc;
}

/* NCCL has no descriptor that says when it goes on, or has failed. */
static int64_t direct_deadline(const struct batch_queue *batch_queue)
{
    const struct batch *batch = batch_queue->first;
    if (batch != NULL && (batch->stage == BATCH_CONNECT || batch->stage == BATCH_CONNECTING ||
                          batch->stage == BATCH_LAUNCHING || batch->splitting))
        return clock_us() + NCCL_TEST_US;
    int64_t persistent_us = persistents_deadline(&batch_queue->persistents);
    bool is_launched = batch_queue->launched != NULL && batch_queue->launched->direct;
    int64_t launched_us = is_launched ? clock_us() + NCCL_WATCH_US : INT64_MAX;
    return persistent_us < launched_us ? persistent_us : launched_us;
}

int64_t batch_queue_deadline(const struct batch_queue *batch_queue)
{
    const struct batch *batch = batch_queue->first;
    int64_t direct_us = direct_deadline(batch_queue);
    if (!batch_queue_is_busy(batch_queue))
        return direct_us;
    int64_t backend_us = backends_deadline(batch_queue->backends, batch->team, batch->backend);
    return backend_us < direct_us ? backend_us : direct_us;
}

int batch_queue_waits_for(const struct batch_queue *batch_queue, const struct batch *batch)
{
    return batch->stage == BATCH_RUN ? backends_waits_for(batch_queue->backends, batch->team, batch->backend)
                                     : -1;
}

bool batch_queue_is_busy(const struct batch_queue *batch_queue)
{
    const struct batch *batch = batch_queue->first;
    return batch != NULL && batch->stage == BATCH_RUN && !failure_is_suspected(batch_queue->failure);
}

bool batch_queue_must_poll(const struct batch_queue *batch_queue)
{
    return batch_queue_is_busy(batch_queue) && backend_table[batch_queue->first->backend]->polled;
}
