/* kernel.c: system calls that Linux 4.18 and glibc 2.28, as in RHEL 8, do not have, and what stands in for
 * them. */
#include "config.h"
#include "base/kernel.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* The highest number of descriptors to close one by one where nothing lists them. */
#define MOST_DESCRIPTORS ((rlim_t)1 << 20)

int kernel_pidfd_open(pid_t pid)
{
#if HAVE_DECL_SYS_PIDFD_OPEN
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    errno = ENOSYS;
    return -1;
#endif
}

/* Returns 0, or -1 without /proc. */
static int close_listed(unsigned first, unsigned last)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return -1;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char *end = NULL;
        unsigned long fd = strtoul(entry->d_name, &end, 10);
        if (end != entry->d_name && *end == 0 && fd >= first && fd <= last && (int)fd != dirfd(folder))
            close((int)fd);
    }
    closedir(folder);
    return 0;
}

void kernel_close_range(unsigned first, unsigned last)
{
    struct rlimit limit;
    if (first > last)
        return;
#if HAVE_DECL_SYS_CLOSE_RANGE
    if (syscall(SYS_close_range, first, last, 0) == 0)
        return;
#endif
    if (close_listed(first, last) == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    rlim_t end = limit.rlim_max < MOST_DESCRIPTORS ? limit.rlim_max : MOST_DESCRIPTORS;
    for (unsigned fd = first; fd <= last && fd < end; fd++)
        close((int)fd);
}

int kernel_memfd_create(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}
