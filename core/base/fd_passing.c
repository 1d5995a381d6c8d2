/* fd_passing.c: descriptors that travel with a message on a unix socket. */
#include "config.h"
#include "base/fd_passing.h"

#include <string.h>
#include <unistd.h>

void fd_passing_attach(struct msghdr *message, struct fd_passing *room, const int *fds, int count)
{
    if (count == 0)
        return;
    size_t bytes = (size_t)count * sizeof(int);
    memset(room, 0, sizeof(*room));
    message->msg_control = room->bytes;
    message->msg_controllen = CMSG_SPACE(bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    *header =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), fds, bytes);
}

/* CMSG_SPACE is padded, which for an odd number leaves room for one more. */
void fd_passing_expect(struct msghdr *message, struct fd_passing *room, int count)
{
    memset(room, 0, sizeof(*room));
    message->msg_control = room->bytes;
    message->msg_controllen = CMSG_LEN((size_t)count * sizeof(int));
}

int fd_passing_take(struct msghdr *message, int *fds, int count)
{
    int taken = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t came = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < came; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
            if (taken < count)
                fds[taken++] = fd;
            else
                close(fd);
        }
    }
    return taken;
}
