/* run.c: batches run one after the other, in the agreed order, each a step at a time. */
#include <stdlib.h>

#include "flow/adasum.h"
#include "flow/row_counts.h"
#include "flow/stages.h"

/* A batch of so few bytes goes on until it has to wait; larger ones take one step in a round. */
#define QUICK_BYTES 16384

/* How often such a batch is looked at again before all else is: the others are at it too. */
#define QUICK_TESTS 8

/* ---- 5 finish -------------------------------------------------------------------------------- */

void end_tensor(struct loop *loop, struct request_tensor *tensor, int status, const char *reason)
{
    struct request *request = tensor->request;
    if (status != HVD_OK)
        request_fail(request, status, reason);
    request->tensors_left--;
    if (request->tensors_left > 0)
        return;
    if (request->placeholder)
        request_free(request);
    else
        end_request(loop, request, request->first_error, request->reason);
}

/* Take the first batch off, and end what it holds. */
static void end_batch(struct loop *loop, int status, const char *reason)
{
    struct batch *batch = loop->batches;
    struct request_tensor *next = NULL;
    stage_begin(loop);
    loop->batches = batch->next;
    if (loop->batches == NULL)
        loop->batch_tail = &loop->batches;
    loop->batch_count--;
    trials_carried(loop, batch->bytes);
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = next) {
        next = tensor->next;
        end_tensor(loop, tensor, status, reason);
    }
    if (batch->stage == BATCH_SET_REMOVE)
        set_change_remove(loop, batch);
    if (batch->request != NULL)
        end_request(loop, batch->request, status, reason);
    batch_free(batch);
}

void run_abandon(struct loop *loop, int status, const char *reason)
{
    const struct batch *batch = loop->batches;
    if (batch != NULL && batch->stage == BATCH_RUN)
        backends_abort(&loop->backends, batch->team, batch->backend);
    while (loop->batches != NULL)
        end_batch(loop, status, reason);
}

static void forget_tensor(struct request_tensor *tensor)
{
    struct request *request = tensor->request;
    request->tensors_left--;
    if (request->placeholder && request->tensors_left == 0)
        request_free(request);
}

void run_discard(struct loop *loop)
{
    struct batch *next = NULL;
    for (struct batch *batch = loop->batches; batch != NULL; batch = next) {
        struct request_tensor *next_tensor = NULL;
        next = batch->next;
        for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = next_tensor) {
            next_tensor = tensor->next;
            forget_tensor(tensor);
        }
        if (batch->stage == BATCH_SET_REMOVE)
            set_change_remove(loop, batch);
        batch_free(batch);
    }
    loop->batches = NULL;
    for (int i = 0; i < loop->decided.count; i++)
        forget_tensor(loop->decided.tensors[i]);
    loop->decided.count = 0;
}

/* ---- 3 batches -> 4 backend -------------------------------------------------------------------- */

static void trace_batch(struct loop *loop, const struct batch *batch, enum trace_step step)
{
    stage_begin(loop);
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL && loop->trace != NULL;
         tensor = tensor->next)
        trace_step(loop->trace, &tensor->request->trace, step, loop->now_us);
}

/* The buffer, as large as the largest batch so far. */
static bool ensure_buffer(struct loop *loop, int64_t bytes)
{
    if (bytes <= loop->buffer_bytes)
        return true;
    void *buffer = NULL;
    if (posix_memalign(&buffer, 4096, (size_t)bytes) != 0)
        return false;
    free(loop->buffer);
    loop->buffer = buffer;
    loop->buffer_bytes = bytes;
    return true;
}

static int lay_out(struct loop *loop, struct batch *batch, struct hvd_error *err)
{
    int rc = batch_plan(batch, err);
    if (rc == HVD_OK && !ensure_buffer(loop, batch->buffer_bytes))
        rc = error_set(err, HVD_ERR_NO_MEMORY,
                       "no memory for a fusion buffer of %lld bytes; lower --hvd-fusion",
                       (long long)batch->buffer_bytes);
    if (rc != HVD_OK)
        return rc;
    batch_lay_out(batch, loop->buffer);
    if (batch->stage == BATCH_PACK)
        trace_batch(loop, batch, TRACE_PACKING);
    return HVD_OK;
}

/* Whether this rank may stand still now, until others come to the same place: they may be waiting for words
 * of ours that lead them there. */
static bool may_block(const struct loop *loop)
{
    return loop->control->ops->flushed(loop->control);
}

static int start(struct loop *loop, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    if (batch->backend < 0 || batch->backend >= BACKEND_COUNT)
        return error_set(err, HVD_ERR_SYSTEM, "the ranks agreed on backend %d, which there is not",
                         batch->backend);
    *movedp = !backends_may_block(batch->team, batch->backend, &batch->transfer) || may_block(loop);
    if (!*movedp)
        return HVD_OK;
    trace_batch(loop, batch, TRACE_TRANSFERRING);
    int rc = backends_start(&loop->backends, batch->team, batch->backend, &batch->transfer, err);
    if (rc == HVD_OK)
        batch->stage = BATCH_RUN;
    return rc;
}

/* What was sized may go beyond the fusion size: the rest takes its turn next. */
static int apply_row_counts(struct loop *loop, struct batch *batch, struct hvd_error *err)
{
    struct batch *rest = NULL;
    int rc = row_counts_apply(batch, batch->fusion_bytes, &rest, err);
    if (rest == NULL)
        return rc;
    rest->next = batch->next;
    batch->next = rest;
    if (rest->next == NULL)
        loop->batch_tail = &rest->next;
    loop->batch_count++;
    return rc;
}

static int transfer_done(struct loop *loop, struct batch *batch, struct hvd_error *err)
{
    if (batch->exchanging_counts)
        return apply_row_counts(loop, batch, err);
    batch_transfer_done(batch);
    if (batch->stage == BATCH_UNPACK)
        trace_batch(loop, batch, TRACE_UNPACKING);
    return HVD_OK;
}

static int run(struct loop *loop, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    int lost_rank = loop->control->rank;
    int looks = batch->bytes <= QUICK_BYTES && backend_table[batch->backend]->polled ? QUICK_TESTS : 1;
    int rc = HVD_IN_PROGRESS;
    *movedp = false;
    for (; looks > 0 && rc == HVD_IN_PROGRESS && !*movedp; looks--)
        rc = backends_test(&loop->backends, batch->team, batch->backend, movedp, &lost_rank, err);
    if (rc == HVD_IN_PROGRESS)
        return HVD_OK;
    *movedp = true;
    if (rc == HVD_OK)
        return transfer_done(loop, batch, err);
    if (rc != HVD_ERR_RANK_LOST)
        return rc;
    fail_suspect(loop, lost_rank, err);
    return HVD_OK;
}

static int add_set(struct loop *loop, const struct batch *batch, bool *movedp, struct hvd_error *err)
{
    *movedp = may_block(loop);
    if (!*movedp)
        return HVD_OK;
    int rc = set_change_add(loop, batch, err);
    if (rc == HVD_OK)
        end_batch(loop, HVD_OK, NULL);
    return rc;
}

static bool step(struct loop *loop, struct batch *batch, struct hvd_error *err, int *rcp)
{
    bool moved = true;
    switch (batch->stage) {
    case BATCH_ROW_COUNTS:
        *rcp = row_counts_exchange(batch, err);
        break;
    case BATCH_LAY_OUT:
        *rcp = lay_out(loop, batch, err);
        break;
    case BATCH_PACK:
        batch_pack(batch);
        break;
    case BATCH_START:
        *rcp = start(loop, batch, &moved, err);
        break;
    case BATCH_RUN:
        *rcp = run(loop, batch, &moved, err);
        break;
    case BATCH_COMBINE:
        adasum_combine(batch);
        break;
    case BATCH_UNPACK:
        batch_unpack(batch);
        break;
    case BATCH_SET_ADD:
        *rcp = add_set(loop, batch, &moved, err);
        break;
    case BATCH_DONE:
    case BATCH_SET_REMOVE:
        end_batch(loop, HVD_OK, NULL);
        break;
    }
    return moved;
}

/* Does the next step take no time to speak of? */
static bool is_quick(const struct batch *batch)
{
    return batch->stage == BATCH_LAY_OUT || batch->stage == BATCH_START || batch->stage == BATCH_DONE ||
           batch->bytes <= QUICK_BYTES;
}

bool run_batch(struct loop *loop, struct hvd_error *err, int *rcp)
{
    struct batch *batch = loop->batches;
    bool moved = false;
    bool again = true;
    bool suspended = loop->failing || loop->suspect_at_us != INT64_MAX;
    if (batch == NULL || *rcp != HVD_OK || suspended || atomic_load(&loop->failed) != HVD_OK)
        return false;
    while (again) {
        bool ends = batch->stage >= BATCH_DONE;
        bool stepped = step(loop, batch, err, rcp);
        moved |= stepped;
        again = stepped && !ends && *rcp == HVD_OK && loop->suspect_at_us == INT64_MAX && is_quick(batch);
    }
    return moved;
}
