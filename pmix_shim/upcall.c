/* upcall.c: the functions that libpmix calls in the process of its server. All of them run on PMIx's
 * thread. */
#include "pmix_shim/upcall.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix_shim/event_channel.h"

/* ---- A rank connected, finalized or asked for the end of the job ---- */

/* PMIx lets the rank continue once this returns: hvdrun receives the event before it can see the rank end. */
static pmix_status_t post(void *server_object, const struct server_event *event)
{
    const struct event_channel *channel = server_object;
    if (channel == NULL)
        return PMIX_ERR_NOT_FOUND;
    return event_channel_post(channel, event) < 0 ? PMIX_ERR_UNREACH : PMIX_OPERATION_SUCCEEDED;
}

static atomic_int connection_count;

int upcall_connection_count(void)
{
    return atomic_load(&connection_count);
}

pmix_status_t upcall_connected(const pmix_proc_t *proc, void *server_object, pmix_info_t info[],
                               size_t info_count, pmix_op_cbfunc_t done, void *done_arg)
{
    (void)info, (void)info_count, (void)done, (void)done_arg;
    struct server_event event = {.kind = SERVER_CONNECTED, .rank = (int)proc->rank};
    atomic_fetch_add(&connection_count, 1);
    return post(server_object, &event);
}

pmix_status_t upcall_finalized(const pmix_proc_t *proc, void *server_object, pmix_op_cbfunc_t done,
                               void *done_arg)
{
    (void)done, (void)done_arg;
    struct server_event event = {.kind = SERVER_FINALIZED, .rank = (int)proc->rank};
    atomic_fetch_sub(&connection_count, 1);
    return post(server_object, &event);
}

/* The job ends whichever ranks are named: collectives of the others could not continue without them. */
pmix_status_t upcall_abort(const pmix_proc_t *proc, void *server_object, int status, const char text[],
                           pmix_proc_t procs[], size_t proc_count, pmix_op_cbfunc_t done, void *done_arg)
{
    (void)procs, (void)proc_count, (void)done, (void)done_arg;
    struct server_event event = {.kind = SERVER_ABORT, .rank = (int)proc->rank, .status = status};
    bool silent = text == NULL || strcmp(text, "N/A") == 0; /* Open MPI has nothing to say */
    snprintf(event.text, sizeof(event.text), "%s", silent ? "" : text);
    return post(server_object, &event);
}

/* ---- A fence ---- */

/* All ranks are on this node, so libpmix completes a fence by itself, unless a participant has died before
 * it. No other node has data to add: we complete the fence with what libpmix collected and with the status
 * that it found. The callback may run here, as libpmix defers it to its own loop. We own [data] from the call
 * on, and pass it to libpmix together with free, its release function. */
pmix_status_t upcall_fence(const pmix_proc_t procs[], size_t proc_count, const pmix_info_t info[],
                           size_t info_count, char *data, size_t data_bytes, pmix_modex_cbfunc_t done,
                           void *done_arg)
{
    (void)procs, (void)proc_count;
    pmix_status_t status = PMIX_SUCCESS;
    for (size_t i = 0; i < info_count; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_LOCAL_COLLECTIVE_STATUS))
            status = info[i].value.data.status;
    }
    done(status, data, data_bytes, done_arg, free, data);
    return PMIX_SUCCESS;
}

/* ---- Events between ranks ---- */

/* libpmix delivers events on this node by itself. There is no other node to pass them to, so each of these
 * completes at once. */
pmix_status_t upcall_register_events(pmix_status_t codes[], size_t code_count, const pmix_info_t info[],
                                     size_t info_count, pmix_op_cbfunc_t done, void *done_arg)
{
    (void)codes, (void)code_count, (void)info, (void)info_count, (void)done, (void)done_arg;
    return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t upcall_deregister_events(pmix_status_t codes[], size_t code_count, pmix_op_cbfunc_t done,
                                       void *done_arg)
{
    (void)codes, (void)code_count, (void)done, (void)done_arg;
    return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t upcall_notify_event(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                                  pmix_info_t info[], size_t info_count, pmix_op_cbfunc_t done,
                                  void *done_arg)
{
    (void)code, (void)source, (void)range, (void)info, (void)info_count, (void)done, (void)done_arg;
    return PMIX_OPERATION_SUCCEEDED;
}

/* ---- Job control ---- */

/* libpmix itself keeps the list of files to remove when a rank ends (Open MPI's segments in /dev/shm are on
 * it), but only for a host that has this call. Nothing else is supported. */
pmix_status_t upcall_job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
                                 size_t target_count, const pmix_info_t directives[], size_t directive_count,
                                 pmix_info_cbfunc_t done, void *done_arg)
{
    (void)requestor, (void)targets, (void)target_count, (void)directives, (void)directive_count;
    (void)done, (void)done_arg;
    return PMIX_ERR_NOT_SUPPORTED;
}
