/* upcall.h: the functions that libpmix calls in the process of its server. All of them run on PMIx's
 * thread. They copy their arguments into an event, post it to the channel, which is the server object of
 * the client, and return. */
#ifndef PMIX_SHIM_UPCALL_H
#define PMIX_SHIM_UPCALL_H

#include <pmix.h>
#include <pmix_server.h>

/* A rank connected, finalized, or wants the job to end. */
pmix_status_t upcall_connected(const pmix_proc_t *proc, void *server_object, pmix_info_t info[],
                               size_t info_count, pmix_op_cbfunc_t done, void *done_arg);
pmix_status_t upcall_finalized(const pmix_proc_t *proc, void *server_object, pmix_op_cbfunc_t done,
                               void *done_arg);
pmix_status_t upcall_abort(const pmix_proc_t *proc, void *server_object, int status, const char text[],
                           pmix_proc_t procs[], size_t proc_count, pmix_op_cbfunc_t done, void *done_arg);

/* How many ranks have connected and not finalized; some of them may have ended. Any thread, also in a signal
 * handler. */
int upcall_connection_count(void);

/* A fence that libpmix did not complete by itself. */
pmix_status_t upcall_fence(const pmix_proc_t procs[], size_t proc_count, const pmix_info_t info[],
                           size_t info_count, char *data, size_t data_bytes, pmix_modex_cbfunc_t done,
                           void *done_arg);

/* Events that ranks send each other. */
pmix_status_t upcall_register_events(pmix_status_t codes[], size_t code_count, const pmix_info_t info[],
                                     size_t info_count, pmix_op_cbfunc_t done, void *done_arg);
pmix_status_t upcall_deregister_events(pmix_status_t codes[], size_t code_count, pmix_op_cbfunc_t done,
                                       void *done_arg);
pmix_status_t upcall_notify_event(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                                  pmix_info_t info[], size_t info_count, pmix_op_cbfunc_t done,
                                  void *done_arg);

/* Files that a rank wants removed when it ends. */
pmix_status_t upcall_job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
                                 size_t target_count, const pmix_info_t directives[], size_t directive_count,
                                 pmix_info_cbfunc_t done, void *done_arg);

#endif
