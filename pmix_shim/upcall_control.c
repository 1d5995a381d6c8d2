/* upcall_control.c: what a rank wants to be done with processes. On PMIx's thread. */
#include "pmix_shim/upcall.h"

/* libpmix keeps by itself the lists of files that are to be removed when a rank ends (Open MPI's segments in
 * /dev/shm are there), but only for a host that has this call. Nothing else is offered. */
pmix_status_t upcall_job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
                                 size_t target_count, const pmix_info_t directives[], size_t directive_count,
                                 pmix_info_cbfunc_t done, void *done_arg)
{
    (void)requestor, (void)targets, (void)target_count, (void)directives, (void)directive_count;
    (void)done, (void)done_arg;
    return PMIX_ERR_NOT_SUPPORTED;
}
