/* stop_in_fence.c: a library to preload that stops the process for good where it calls PMIx_Fence_nb. */
#include <pmix.h>
#include <signal.h>
#include <unistd.h>

#include "base/process_signal.h"

__attribute__((visibility("default"))) pmix_status_t
PMIx_Fence_nb(const pmix_proc_t procs[], size_t proc_count, const pmix_info_t info[], size_t info_count,
              pmix_op_cbfunc_t done, void *argument)
{
    (void)procs, (void)proc_count, (void)info, (void)info_count, (void)done, (void)argument;
    process_signal(getpid(), SIGSTOP);
    return PMIX_ERROR;
}
