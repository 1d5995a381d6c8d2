/* upcall_event.c: events between ranks. libpmix delivers them on this node by itself; there is no other
 * node to tell, so each is done as soon as it is asked for. On PMIx's thread. */
#include "pmix_shim/upcall.h"

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
