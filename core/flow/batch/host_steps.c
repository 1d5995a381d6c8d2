/* host_steps.c: the steps of a batch that a backend carries through memory of the host. */
#include "flow/batch/host_steps.h"

#include <stdlib.h>

#include "flow/batch/adasum.h"
#include "flow/batch/layout.h"
#include "flow/batch/row_counts.h"
#include "flow/batch/staging.h"

/* How often a quick batch is tested before the round goes on: its other members are at work on it too, and
 * will be done soon. */
#define QUICK_TESTS 8

void host_steps_fini(struct host_steps *host)
{
    free(host->buffer);
    host->buffer = NULL;
}

/* ---- From the GPU ------------------------------------------------------------------------------ */

/* Take the next side. The GPU copies into it only after it has copied out the results of earlier batches. */
static int take_side(struct host_steps *host, struct batch *batch, struct hvd_error *err)
{
    int rc = HVD_OK;
    host->side = (host->side + 1) % GPU_BLOCK_SIDES;
    batch_host(batch)->side = host->side;
    for (const struct batch *stored = host->batch_queue->launched; stored != NULL && rc == HVD_OK;
         stored = stored->next)
        if (batch_host(stored) != NULL && batch_host(stored)->side == host->side)
            rc = gpu_await(batch->gpu, stored->event, err);
    return rc;
}

/* A rank that has joined has nothing to copy, but its batch is cut as that of the others. */
int host_fetch(struct host_steps *host, struct batch *batch, struct hvd_error *err)
{
    struct batch *rest = NULL;
    int rc = staging_cut(batch, &rest, err);
    if (rest != NULL)
        batch_queue_insert_behind(host->batch_queue, batch, rest);
    batch->stage = batch->gpu != NULL ? BATCH_FETCHING : BATCH_LAY_OUT;
    batch_host(batch)->handed =
        batch->gpu != NULL && staging_can_hand(batch) && backends_take_gpu(host->backends, batch->backend);
    if (rc == HVD_OK && batch->gpu != NULL)
        rc = take_side(host, batch, err);
    if (rc == HVD_OK && batch->gpu != NULL)
        rc = staging_fetch(batch, err);
    return rc;
}

static int test_fetched(struct host_steps *host, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    int rc = batch_queue_test_event(host->batch_queue, batch, err);
    *movedp = rc == HVD_OK;
    if (rc == HVD_OK)
        batch->stage = batch_has_row_counts(batch) ? BATCH_LAY_OUT : BATCH_ROW_COUNTS;
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* ---- Layout ------------------------------------------------------------------------------------ */

static bool ensure_buffer(struct host_steps *host, int64_t bytes)
{
    if (bytes <= host->buffer_bytes)
        return true;
    void *buffer = NULL;
    if (posix_memalign(&buffer, 4096, (size_t)bytes) != 0)
        return false;
    free(host->buffer);
    host->buffer = buffer;
    host->buffer_bytes = bytes;
    return true;
}

/* Allgather, alltoall: results get their memory now that its size is known, and those on the GPU the host
 * memory too in which they arrive. */
static int allocate_results(struct batch *batch, struct hvd_error *err)
{
    if (!batch_is_sized_later(batch))
        return HVD_OK;
    row_counts_allocate(batch);
    return batch->gpu == NULL || batch_host(batch)->handed ? HVD_OK : staging_place_results(batch, err);
}

static int plan(struct batch *batch, struct hvd_error *err)
{
    if (batch_adasum(batch) != NULL)
        return adasum_plan(batch, err);
    int rc = allocate_results(batch, err);
    return rc == HVD_OK ? layout_plan(batch, err) : rc;
}

static int lay_out(struct host_steps *host, struct batch *batch, struct hvd_error *err)
{
    int rc = plan(batch, err);
    if (rc == HVD_OK && !ensure_buffer(host, batch->layout.buffer_bytes))
        rc = error_set(err, HVD_ERR_NO_MEMORY,
                       "no memory for a fusion buffer of %lld bytes; lower --hvd-fusion",
                       (long long)batch->layout.buffer_bytes);
    if (rc != HVD_OK)
        return rc;
    if (batch_adasum(batch) != NULL)
        adasum_place(batch, host->buffer);
    else
        layout_place(batch, host->buffer);
    if (batch->stage == BATCH_PACK)
        batch_queue_trace(host->batch_queue, batch, TRACE_PACKING);
    return HVD_OK;
}

int host_apply_row_counts(struct host_steps *host, struct batch *batch, struct hvd_error *err)
{
    struct batch *rest = NULL;
    int rc = row_counts_apply(batch, batch->fusion_bytes, &rest, err);
    if (rest != NULL)
        batch_queue_insert_behind(host->batch_queue, batch, rest);
    return rc;
}

/* ---- Packing ----------------------------------------------------------------------------------- */

static void pack(struct batch *batch)
{
    if (batch_adasum(batch) != NULL)
        adasum_pack(batch);
    else
        layout_pack(batch);
}

static void unpack(struct batch *batch)
{
    if (batch_adasum(batch) != NULL)
        adasum_unpack(batch);
    else
        layout_unpack(batch);
}

/* ---- The transfer ------------------------------------------------------------------------------ */

bool host_may_open(const struct host_steps *host, uint32_t mask)
{
    return !backends_may_block(host->backends, mask) || host->control->ops->flushed(host->control);
}

int host_start(struct host_steps *host, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    if (batch->backend < 0 || batch->backend >= BACKEND_COUNT)
        return error_set(err, HVD_ERR_SYSTEM, "the ranks agreed on backend %d, which does not exist",
                         batch->backend);
    *movedp = host_may_open(host, UINT32_C(1) << batch->backend);
    if (!*movedp)
        return HVD_OK;
    batch_queue_trace(host->batch_queue, batch, TRACE_TRANSFERRING);
    int rc = backends_start(host->backends, batch->set, batch->backend, &batch->transfer, err);
    if (rc == HVD_OK)
        batch->stage = BATCH_RUN;
    return rc;
}

/* A CUDA-aware MPI calls CUDA itself, and so needs the GPU's context. */
static int test_on_gpu(const struct host_steps *host, const struct batch *batch, bool *movedp, int *rankp,
                       struct hvd_error *err)
{
    int mode = 0;
    int rc = gpu_enter(batch->gpu, &mode, err);
    if (rc != HVD_OK)
        return rc;
    rc = backends_test(host->backends, batch->set, batch->backend, movedp, rankp, err);
    gpu_leave(batch->gpu, mode);
    return rc;
}

int host_test(struct host_steps *host, struct batch *batch, bool *donep, bool *movedp, struct hvd_error *err)
{
    int lost_rank = host->control->rank;
    int tests =
        batch->layout.bytes <= HOST_QUICK_BYTES && backend_table[batch->backend]->polled ? QUICK_TESTS : 1;
    int rc = HVD_IN_PROGRESS;
    *movedp = false;
    for (; tests > 0 && rc == HVD_IN_PROGRESS && !*movedp; tests--)
        rc = batch->transfer.on_gpu
                 ? test_on_gpu(host, batch, movedp, &lost_rank, err)
                 : backends_test(host->backends, batch->set, batch->backend, movedp, &lost_rank, err);
    *donep = rc == HVD_OK;
    if (rc == HVD_IN_PROGRESS)
        return HVD_OK;
    *movedp = true;
    if (rc != HVD_ERR_RANK_LOST)
        return rc;
    failure_suspect(host->failure, lost_rank, err);
    return HVD_OK;
}

void host_transferred(struct host_steps *host, struct batch *batch)
{
    if (batch_adasum(batch) != NULL)
        adasum_transferred(batch);
    else
        layout_transferred(batch);
    if (batch->stage == BATCH_UNPACK)
        batch_queue_trace(host->batch_queue, batch, TRACE_UNPACKING);
}

/* A CUDA-aware MPI calls CUDA also when it gives up memory of the GPU. */
static void abort_transfer(const struct host_steps *host, const struct batch *batch)
{
    int mode = 0;
    bool entered = batch->transfer.on_gpu && gpu_enter(batch->gpu, &mode, NULL) == HVD_OK;
    backends_abort(host->backends, batch->set, batch->backend);
    if (entered)
        gpu_leave(batch->gpu, mode);
}

void host_abandon(const struct host_steps *host, const struct batch *batch)
{
    if (batch->stage == BATCH_RUN)
        abort_transfer(host, batch);
}

/* ---- Back to the GPU --------------------------------------------------------------------------- */

static int store(struct host_steps *host, struct batch *batch, struct hvd_error *err)
{
    int rc = staging_store(batch, err);
    if (rc == HVD_OK)
        batch_queue_launch_first(host->batch_queue);
    return rc;
}

int host_step(struct host_steps *host, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    *movedp = true;
    switch (batch->stage) {
    case BATCH_FETCH:
        return host_fetch(host, batch, err);
    case BATCH_FETCHING:
        return test_fetched(host, batch, movedp, err);
    case BATCH_LAY_OUT:
        return lay_out(host, batch, err);
    case BATCH_PACK:
        pack(batch);
        return HVD_OK;
    case BATCH_COMBINE:
        adasum_combine(batch);
        return HVD_OK;
    case BATCH_UNPACK:
        unpack(batch);
        return HVD_OK;
    case BATCH_STORE:
        return store(host, batch, err);
    default:
        return error_set(err, HVD_ERR_SYSTEM, "a batch in host memory has no step %d", (int)batch->stage);
    }
}
