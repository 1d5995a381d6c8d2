/* direct_steps.c: the steps of a batch that NCCL carries from GPU to GPU. */
#include "flow/batch/direct_steps.h"

#include "flow/batch/communicator.h"
#include "flow/batch/direct.h"

int direct_connect(struct direct_steps *direct, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    *movedp = !direct->persistents->is_launching;
    if (!*movedp)
        return HVD_OK;
    if (batch_uses_nccl(batch) &&
        batch->set->nccl_refused) /* each of them goes through host memory, in its turn */
        batch_queue_part_companions(direct->batch_queue, batch);
    return communicator_connect(direct->backends, batch, movedp, err);
}

static int lay_out(struct direct_steps *direct, struct batch *batch, struct hvd_error *err)
{
    int rc = direct_lay_out(batch, err);
    if (batch->stage == BATCH_DONE)
        batch_queue_part_companions(direct->batch_queue, batch);
    return rc;
}

static int launch(struct direct_steps *direct, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    *movedp = !direct->persistents->is_launching;
    if (!*movedp)
        return HVD_OK;
    batch_queue_trace(direct->batch_queue, batch, TRACE_TRANSFERRING);
    for (const struct batch *at = batch_companions(batch); at != NULL; at = at->next)
        batch_queue_trace(direct->batch_queue, at, TRACE_TRANSFERRING);
    return direct_launch(batch, gpu_stream(batch->gpu), err);
}

static int test_launched(struct direct_steps *direct, struct batch *batch, bool *movedp,
                         struct hvd_error *err)
{
    int rc = direct_test_launched(batch, movedp, err);
    if (rc == HVD_OK && *movedp)
        batch_queue_part_companions(direct->batch_queue, batch);
    return rc;
}

int direct_test_event(const struct batch_queue *batch_queue, const struct batch *batch, struct hvd_error *err)
{
    int rc = batch_queue_test_event(batch_queue, batch, err);
    return rc == HVD_IN_PROGRESS ? direct_watch(batch, err) : rc;
}

/* All that the batch needs is on the GPU: the persistent operation keeps it. */
static int keep(struct direct_steps *direct, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    int rc = batch->event == NULL ? direct_prepare(batch, err) : HVD_OK;
    if (rc == HVD_OK && batch->event == NULL)
        rc = gpu_mark_own(batch->gpu, &batch->event, err);
    if (rc == HVD_OK)
        rc = direct_test_event(direct->batch_queue, batch, err);
    *movedp = rc == HVD_OK;
    if (rc == HVD_OK)
        persistent_keep(batch->persistent, batch_queue_keep_first(direct->batch_queue));
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

static int store(struct direct_steps *direct, struct batch *batch, struct hvd_error *err)
{
    int rc = gpu_mark_own(batch->gpu, &batch->event, err);
    if (rc == HVD_OK)
        batch_queue_launch_first(direct->batch_queue);
    return rc;
}

int direct_step(struct direct_steps *direct, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    *movedp = true;
    switch (batch->stage) {
    case BATCH_CONNECT:
        return direct_connect(direct, batch, movedp, err);
    case BATCH_CONNECTING:
        return communicator_test(batch, movedp, err);
    case BATCH_LAY_OUT:
        return lay_out(direct, batch, err);
    case BATCH_LAUNCH:
        return launch(direct, batch, movedp, err);
    case BATCH_LAUNCHING:
        return test_launched(direct, batch, movedp, err);
    case BATCH_KEEP:
        return keep(direct, batch, movedp, err);
    case BATCH_STORE:
        return store(direct, batch, err);
    default:
        return error_set(err, HVD_ERR_SYSTEM, "a batch that NCCL carries has no step %d", (int)batch->stage);
    }
}
