/* ulimit.c: limits of this process that end it before a call can fail. */
#include "base/ulimit.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

bool ulimit_allows_file(int64_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        (uint64_t)bytes <= limit.rlim_cur)
        return true;
    errno = EFBIG;
    return false;
}

bool ulimit_address_space(unsigned long long *mibp)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;
    *mibp = (unsigned long long)limit.rlim_cur >> 20;
    return true;
}

int ulimit_leaves_room(const char *user, size_t bytes, struct hvd_error *err)
{
    unsigned long long limit_mib;
    if (!ulimit_address_space(&limit_mib))
        return HVD_OK;
    void *room = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return error_set(err, HVD_ERR_NO_MEMORY,
                         "%s needs %zu MiB of address space to start, more than this process has left of "
                         "its limit of %llu MiB; raise `ulimit -v`",
                         user, bytes >> 20, limit_mib);
    munmap(room, bytes);
    return HVD_OK;
}
