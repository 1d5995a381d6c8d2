/* fd_passing.h: descriptors that travel with a message on a unix socket. */
#ifndef BASE_FD_PASSING_H
#define BASE_FD_PASSING_H

#include <sys/socket.h>

#define FD_PASSING_MAX 104 /* most descriptors of one message */

/* Room for them, which must live as long as the message is used. */
struct fd_passing {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FD_PASSING_MAX * sizeof(int))];
    };
};

/* Let [message] carry [count] descriptors; with 0 it carries none. */
void fd_passing_attach(struct msghdr *message, struct fd_passing *room, const int *fds, int count);

/* Let [message] receive at most [count] descriptors: the kernel closes what is beyond them, and sets
 * MSG_CTRUNC. */
void fd_passing_expect(struct msghdr *message, struct fd_passing *room, int count);

/* Store the descriptors that came, at most [count], in [fds], close any others, and return how many are
 * there. */
int fd_passing_take(struct msghdr *message, int *fds, int count);

#endif
