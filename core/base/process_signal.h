/* process_signal.h: send signals to processes. Nothing else calls kill(2), since 0, -1 and numbers that a
 * failed call left behind would reach this process's group, or every process of the user. */
#ifndef BASE_PROCESS_SIGNAL_H
#define BASE_PROCESS_SIGNAL_H

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Signal one process. Returns 0, or -1 with errno; EINVAL where [pid] names no single process that may be
 * signalled: 0, 1 or a negative number. */
static inline int process_signal(pid_t pid, int signal_number)
{
    if (pid <= 1) {
        errno = EINVAL;
        return -1;
    }
    return kill(pid, signal_number);
}

/* Signal the process of [pidfd]. 0, or -1 with errno, ENOSYS before Linux 5.1. */
static inline int process_signal_by_pidfd(int pidfd, int signal_number)
{
#ifdef SYS_pidfd_send_signal
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0);
#else
    (void)pidfd;
    (void)signal_number;
    errno = ENOSYS;
    return -1;
#endif
}

/* Signal the process group that [leader] leads. Likewise. */
static inline int process_signal_group(pid_t leader, int signal_number)
{
    if (leader <= 1) {
        errno = EINVAL;
        return -1;
    }
    return kill(-leader, signal_number);
}

/* Signal this process, whatever its number. */
static inline void process_signal_self(int signal_number)
{
    kill(getpid(), signal_number);
}

#endif
