/* address_space.c: the limit of this process's address space, and whether it leaves room for a library. */
#include "base/address_space.h"

#include <sys/mman.h>
#include <sys/resource.h>

bool address_space_limit(unsigned long long *mibp)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;
    *mibp = (unsigned long long)limit.rlim_cur >> 20;
    return true;
}

int address_space_need(const char *user, size_t bytes, struct hvd_error *err)
{
    unsigned long long limit_mib;
    if (!address_space_limit(&limit_mib))
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
