/* own_network.h: a network of a test's own, whose loopback it can take down like a cable. */
#ifndef TESTS_UNIT_OWN_NETWORK_H
#define TESTS_UNIT_OWN_NETWORK_H

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

static inline void set_loopback(bool up)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_name = "lo"};
    ck_assert_int_eq(ioctl(fd, SIOCGIFFLAGS, &request), 0);
    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0);
    close(fd);
}

/* A network of this process's own; false where the kernel refuses. */
static inline bool own_network(void)
{
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        printf("# skipped: no network of its own: %s\n", strerror(errno));
        return false;
    }
    set_loopback(true);
    return true;
}

#endif
