/* clocks.c: compare the clocks of the job's nodes. */
#include "api/clocks.h"

#include "base/clock.h"
#include "api/operation.h"
#include "trace/clock_offset.h"

/* The narrowest of so many windows is kept: one that nothing has disturbed. */
#define ROUNDS 8

static int meet(struct context *context)
{
    struct desc *desc = operation_own(DESC_BARRIER, HVD_ALL_RANKS, DESC_BARRIER_NAME);
    struct request *request = operation_request(context, desc);
    return request == NULL ? HVD_ERR_NO_MEMORY : operation_run(context, request);
}

/* What the clock of rank 0 says, to all ranks. */
static int tell(struct context *context, int64_t *now_usp)
{
    struct desc *desc = operation_own(DESC_BROADCAST, HVD_ALL_RANKS, DESC_CLOCK_NAME);
    if (desc != NULL)
        desc->tensors[0].dtype = HVD_INT64;
    return operation_run_element(context, desc, now_usp);
}

/* Rank 0 looks at its clock after all have met, and so after we have asked. */
static int take_sample(struct context *context, struct offset_sample *sample)
{
    sample->asked_us = clock_us();
    int rc = meet(context);
    sample->other_us = clock_us();
    if (rc == HVD_OK)
        rc = tell(context, &sample->other_us);
    sample->answered_us = clock_us();
    return rc;
}

int clocks_compare(struct context *context)
{
    struct offset_sample samples[ROUNDS];
    int64_t offset_us = 0;
    int64_t error_us = 0;
    const struct shape *shape = &context->joined.shape;
    int rc = HVD_OK;
    if (shape->node == 0)
        trace_set_clock_offset(context->trace, 0, 0);
    if (context->config.timeline[0] == 0 || shape->node_count == 1)
        return HVD_OK;
    for (int i = 0; i < ROUNDS && rc == HVD_OK; i++)
        rc = take_sample(context, &samples[i]);
    if (rc == HVD_OK && shape->node != 0 && offset_of_samples(samples, ROUNDS, &offset_us, &error_us) == 0)
        trace_set_clock_offset(context->trace, offset_us, error_us);
    return rc;
}
