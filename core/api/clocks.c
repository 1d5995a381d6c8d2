/* clocks.c: compare the clocks of the job's nodes. */
#include "api/clocks.h"

#include "base/clock.h"
#include "api/operation.h"
#include "trace/clock_offset.h"

/* Of this many samples the one with the shortest round trip is used, because it was disturbed least. */
#define SAMPLE_COUNT 8

static int run_barrier(struct context *context)
{
    struct desc *desc = operation_internal_desc(DESC_BARRIER, HVD_ALL_RANKS, DESC_BARRIER_NAME);
    struct request *request = operation_request(context, desc);
    return request == NULL ? HVD_ERR_NO_MEMORY : operation_run(context, request);
}

/* Send the clock of rank 0 to all ranks. */
static int broadcast_clock(struct context *context, int64_t *now_usp)
{
    struct desc *desc = operation_internal_desc(DESC_BROADCAST, HVD_ALL_RANKS, DESC_CLOCK_NAME);
    if (desc != NULL)
        desc->tensors[0].dtype = HVD_INT64;
    return operation_run_element(context, desc, now_usp);
}

/* Rank 0 reads its clock after the barrier, and so after this rank has read its own. */
static int take_sample(struct context *context, struct clock_sample *sample)
{
    sample->sent_us = clock_us();
    int rc = run_barrier(context);
    sample->remote_us = clock_us();
    if (rc == HVD_OK)
        rc = broadcast_clock(context, &sample->remote_us);
    sample->received_us = clock_us();
    return rc;
}

int clocks_measure_offset(struct context *context)
{
    struct clock_sample samples[SAMPLE_COUNT];
    int64_t offset_us = 0;
    int64_t error_us = 0;
    const struct tree_shape *shape = &context->bootstrap.shape;
    int rc = HVD_OK;
    if (shape->node == 0)
        trace_set_clock_offset(context->trace, 0, 0);
    if (context->config.timeline[0] == 0 || shape->node_count == 1)
        return HVD_OK;
    for (int i = 0; i < SAMPLE_COUNT && rc == HVD_OK; i++)
        rc = take_sample(context, &samples[i]);
    if (rc == HVD_OK && shape->node != 0 &&
        clock_offset_estimate(samples, SAMPLE_COUNT, &offset_us, &error_us) == 0)
        trace_set_clock_offset(context->trace, offset_us, error_us);
    return rc;
}
