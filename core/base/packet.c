/* packet.c: packets from a socket of type SOCK_SEQPACKET. */
#include "base/packet.h"

#include <stddef.h>

#include "base/fd_passing.h"

/* No packet of hvd's is empty, and so nobody would take what came with one. */
static void close_descriptors(struct msghdr *message)
{
    fd_passing_take(message, NULL, 0);
    message->msg_controllen = 0;
}

ssize_t packet_receive(int fd, struct msghdr *message, int flags)
{
    const struct msghdr before = *message;
    ssize_t length = recvmsg(fd, message, flags | MSG_DONTWAIT);
    if (length != 0)
        return length;
    close_descriptors(message);
    *message = before;
    length = recvmsg(fd, message, flags | MSG_DONTWAIT);
    if (length == 0)
        close_descriptors(message);
    return length;
}

ssize_t packet_read(int fd, void *bytes, size_t length)
{
    struct iovec part = {bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return packet_receive(fd, &message, 0);
}
