/* fuzz_packet.h: packets with descriptors from a hostile process of the same node. */
#ifndef TESTS_FUZZ_FUZZ_PACKET_H
#define TESTS_FUZZ_FUZZ_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd_passing.h"

/* Send [bytes] on the socket [fd], and [fd_count] times that socket itself. */
static inline bool send_packet(int fd, const unsigned char *bytes, size_t length, int fd_count)
{
    int fds[FD_PASSING_MAX];
    struct fd_passing room;
    struct iovec part = {(void *)(uintptr_t)bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    for (int i = 0; i < fd_count; i++)
        fds[i] = fd;
    if (fd_count > 0)
        fd_passing_attach(&message, &room, fds, fd_count);
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)length;
}

/* The lowest descriptor that is free: it stays the same where none is left behind. */
static inline int lowest_free(int any_fd)
{
    int lowest = dup(any_fd);
    close(lowest);
    return lowest;
}

#endif
