/* packet.c: packets from a socket of type SOCK_SEQPACKET. */
#include "base/packet.h"

ssize_t packet_receive(int fd, struct msghdr *message, int flags)
{
    const struct msghdr before = *message;
    ssize_t length = recvmsg(fd, message, flags | MSG_DONTWAIT);
    if (length != 0)
        return length;
    *message = before;
    return recvmsg(fd, message, flags | MSG_DONTWAIT);
}

ssize_t packet_read(int fd, void *bytes, size_t length)
{
    struct iovec part = {bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return packet_receive(fd, &message, 0);
}
