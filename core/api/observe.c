/* observe.c: the public calls that stop a job and observe it. */
#include <stdio.h>

#include "api/operation.h"
#include "trace/stop.h"
#include "trace/trace.h"

/* ---- Stopping ----------------------------------------------------------------------------------- */

void hvd_request_stop(void)
{
    stop_request();
}

/* Replace *stopp by the maximum over all ranks. */
static int reduce_stop(struct context *context, int32_t *stopp)
{
    struct desc *desc = operation_internal_desc(DESC_ALLREDUCE, HVD_ALL_RANKS, DESC_STOP_NAME);
    if (desc != NULL) {
        desc->op = HVD_MAX;
        desc->tensors[0].dtype = HVD_INT32;
    }
    return operation_run_element(context, desc, stopp);
}

enum hvd_status hvd_should_stop(int *stopp)
{
    struct context *context = context_require();
    if (context == NULL)
        return HVD_ERR_STATE;
    if (stopp == NULL)
        return error_set(context_error(), HVD_ERR_INVALID,
                         "hvd_should_stop: stopp is NULL; pass the address of an int");
    int rc = loop_check_not_in_callback(context->loop, "hvd_should_stop", context_error());
    if (rc != HVD_OK)
        return rc;
    pthread_mutex_lock(&context->stop_lock);
    int32_t stop = stop_requested();
    rc = reduce_stop(context, &stop);
    pthread_mutex_unlock(&context->stop_lock);
    if (rc == HVD_OK)
        *stopp = stop != 0;
    return rc;
}

/* ---- Observing ---------------------------------------------------------------------------------- */

enum hvd_status hvd_timeline_start(const char *folder)
{
    struct context *context = context_require();
    if (context == NULL)
        return HVD_ERR_STATE;
    if (folder == NULL || folder[0] == 0)
        return error_set(context_error(), HVD_ERR_INVALID,
                         "hvd_timeline_start: folder is %s; pass the name of a folder",
                         folder == NULL ? "NULL" : "\"\"");
    return trace_timeline_start(context->trace, folder, context_error());
}

enum hvd_status hvd_timeline_stop(void)
{
    struct context *context = context_require();
    return context == NULL ? HVD_ERR_STATE : trace_timeline_stop(context->trace, context_error());
}
