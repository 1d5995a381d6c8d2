/* fuzz_attach.c: a packet by which ranks of a node come to share memory, from hostile bytes. The first byte
 * of an input says which is expected, and how many descriptors come along. */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd_passing.h"
#include "fuzz.h"
#include "node/attach.h"

static bool send_packet(int fd, const unsigned char *bytes, size_t length, int fd_count)
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

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    int ends[2];
    struct attach_packet packet;
    struct attach_fds fds;
    struct hvd_error err = {""};
    if (length < 2 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
        return 0;
    int type = ATTACH_DOORBELL + bytes[0] % ATTACH_REFUSAL, fd_count = bytes[0] / 8 % (ATTACH_MAX_FDS + 1);
    int lowest = dup(ends[0]);
    close(lowest);
    if (send_packet(ends[0], bytes + 1, length - 1, fd_count)) {
        int rc = attach_receive(ends[1], (enum attach_packet_type)type, &packet, &fds, &err);
        assert(rc == HVD_OK || (fds.count == 0 && err.text[0] != 0));
        assert(rc != HVD_OK || (packet.type == type && fds.count == fd_count));
        attach_close_fds(&fds);
    }
    int again = dup(ends[0]);
    close(again);
    assert(again == lowest); /* no descriptor is left behind */
    close(ends[0]);
    close(ends[1]);
    return 0;
}
