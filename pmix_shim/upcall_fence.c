/* upcall_fence.c: the end of a fence that libpmix did not end by itself. On PMIx's thread. */
#include "pmix_shim/upcall.h"

#include <stdlib.h>

/* All ranks are on this node, so libpmix ends a fence without asking, unless a participant has died
 * meanwhile. There is nobody else to gather from: the answer is what came in, under the status that libpmix
 * worked out. The answer may be given at once, as libpmix defers it to its own loop. [data] becomes ours, and
 * then libpmix's with its release. */
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
