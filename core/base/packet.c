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
