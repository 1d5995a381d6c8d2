/* deputy.c: copies of a leader's sockets, which its deputy shuts down if the leader dies. */
#include "config.h"
#include "node/deputy.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/fd_passing.h"
#include "base/packet.h"
#include "base/status.h"

int deputy_open(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0 ? HVD_OK
                                                                                            : HVD_ERR_SYSTEM;
}

void deputy_entrust(int leader_end, const int *fds, int count)
{
    struct fd_passing room;
    int open[FD_PASSING_MAX], open_count = 0;
    char byte = 0;
    struct iovec part = {&byte, sizeof(byte)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    for (int i = 0; i < count && open_count < FD_PASSING_MAX; i++)
        if (fds[i] >= 0)
            open[open_count++] = fds[i];
    if (leader_end < 0 || open_count == 0)
        return;
    fd_passing_attach(&message, &room, open, open_count);
    sendmsg(leader_end, &message, MSG_NOSIGNAL);
}

void deputy_end_connections(int deputy_end)
{
    struct fd_passing room;
    int fds[FD_PASSING_MAX];
    char byte;
    struct iovec part = {&byte, sizeof(byte)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (deputy_end < 0)
        return;
    fd_passing_expect(&message, &room, FD_PASSING_MAX);
    if (packet_receive(deputy_end, &message, MSG_CMSG_CLOEXEC) <= 0)
        return;
    int count = fd_passing_take(&message, fds, FD_PASSING_MAX);
    for (int i = 0; i < count; i++) {
        shutdown(fds[i], SHUT_RDWR);
        close(fds[i]);
    }
}
