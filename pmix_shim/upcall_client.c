/* upcall_client.c: a rank connected, finalized or asked for the end of the job. On PMIx's thread. */
#include "pmix_shim/upcall.h"

#include <stdio.h>
#include <string.h>

#include "pmix_shim/event_channel.h"

/* Once it is posted the rank may go on: hvdrun hears of this before it can see the rank end. */
static pmix_status_t post(void *server_object, const struct server_event *event)
{
    const struct event_channel *channel = server_object;
    if (channel == NULL)
        return PMIX_ERR_NOT_FOUND;
    return event_channel_post(channel, event) < 0 ? PMIX_ERR_UNREACH : PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t upcall_connected(const pmix_proc_t *proc, void *server_object, pmix_info_t info[],
                               size_t info_count, pmix_op_cbfunc_t done, void *done_arg)
{
    (void)info, (void)info_count, (void)done, (void)done_arg;
    struct server_event event = {.kind = SERVER_CONNECTED, .rank = (int)proc->rank};
    return post(server_object, &event);
}

pmix_status_t upcall_finalized(const pmix_proc_t *proc, void *server_object, pmix_op_cbfunc_t done,
                               void *done_arg)
{
    (void)done, (void)done_arg;
    struct server_event event = {.kind = SERVER_FINALIZED, .rank = (int)proc->rank};
    return post(server_object, &event);
}

/* Whichever ranks it names, the job ends: collectives over the rest could not go on. */
pmix_status_t upcall_abort(const pmix_proc_t *proc, void *server_object, int status, const char text[],
                           pmix_proc_t procs[], size_t proc_count, pmix_op_cbfunc_t done, void *done_arg)
{
    (void)procs, (void)proc_count, (void)done, (void)done_arg;
    struct server_event event = {.kind = SERVER_ABORT, .rank = (int)proc->rank, .status = status};
    bool silent = text == NULL || strcmp(text, "N/A") == 0; /* Open MPI has nothing to say */
    snprintf(event.text, sizeof(event.text), "%s", silent ? "" : text);
    return post(server_object, &event);
}
