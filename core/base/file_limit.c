/* file_limit.c: how large this process may make a file (`ulimit -f`). */
#include "base/file_limit.h"

#include <errno.h>
#include <sys/resource.h>

bool file_limit_allows(int64_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        (uint64_t)bytes <= limit.rlim_cur)
        return true;
    errno = EFBIG;
    return false;
}
