/* kernel.h: system calls that Linux 4.18 and glibc 2.28, as in RHEL 8, do not have, and what stands in for
 * them. */
#ifndef BASE_KERNEL_H
#define BASE_KERNEL_H

#include <sys/types.h>

/* A descriptor, close-on-exec, that is readable once the process has ended; -1 with errno, ENOSYS before
 * Linux 5.3. */
int kernel_pidfd_open(pid_t pid);

/* Close the descriptors [first] to [last], of which there may be none; also those above the limit on
 * descriptors. */
void kernel_close_range(unsigned first, unsigned last);

/* A file in memory, without a name, close-on-exec, that can be sealed; not executable where the kernel has a
 * flag for that, which some sites demand. -1 with errno. [name] is for people who look at /proc. */
int kernel_memfd_create(const char *name);

#endif
