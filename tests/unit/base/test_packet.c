/* test_packet.c: the end of a socket comes after its packets, also where Linux reports it before the last
 * one. */
#include "config.h"
#include "unit.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd_passing.h"
#include "base/packet.h"

static int sockets[2];
static int early_ends; /* so often the system call below says 0 where a packet is */

/* In place of the C library's. */
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    if (early_ends == 0)
        return syscall(SYS_recvmsg, fd, message, flags);
    early_ends--;
    message->msg_controllen = 0;
    message->msg_flags = 0;
    return 0;
}

static void open_sockets(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
}

static void close_sockets(void)
{
    close(sockets[0]);
    close(sockets[1]);
}

static ssize_t receive(char *byte, int *fdp)
{
    struct fd_passing room;
    struct iovec part = {byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    fd_passing_expect(&message, &room, 1);
    ssize_t length = packet_receive(sockets[0], &message, MSG_CMSG_CLOEXEC);
    *fdp = -1;
    if (length > 0)
        fd_passing_take(&message, fdp, 1);
    return length;
}

static void send_bytes(char *bytes, size_t length)
{
    struct fd_passing room;
    struct iovec part = {bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    fd_passing_attach(&message, &room, &sockets[1], 1);
    ck_assert_int_eq(sendmsg(sockets[1], &message, 0), length);
}

static void send_packet(char byte)
{
    send_bytes(&byte, 1);
}

/* With the descriptor that came with it. */
START_TEST(the_packet_comes_before_the_end)
{
    char byte = 0;
    int fd;
    send_packet('a');
    send_packet('b');
    early_ends = _i;
    ck_assert_int_eq(receive(&byte, &fd), 1);
    ck_assert_int_eq(byte, 'a');
    ck_assert_int_ge(fd, 0);
    close(fd);
    early_ends = _i;
    ck_assert_int_eq(receive(&byte, &fd), 1);
    ck_assert_int_eq(byte, 'b');
    close(fd);
    close(sockets[1]);
    ck_assert_int_eq(receive(&byte, &fd), 0);
    ck_assert_int_eq(receive(&byte, &fd), 0);
}
END_TEST

START_TEST(an_empty_packet_leaves_no_descriptor)
{
    char byte = 0;
    int fd;
    int before = dup(0);
    close(before);
    send_bytes(&byte, 0);
    ck_assert_int_eq(receive(&byte, &fd), -1);
    send_bytes(&byte, 0);
    send_packet('a');
    ck_assert_int_eq(receive(&byte, &fd), 1);
    ck_assert_int_eq(byte, 'a');
    close(fd);
    send_bytes(&byte, 0);
    send_bytes(&byte, 0);
    ck_assert_int_eq(receive(&byte, &fd), 0);
    int after = dup(0);
    close(after);
    ck_assert_int_eq(before, after);
}
END_TEST

START_TEST(it_does_not_wait)
{
    char byte;
    int fd;
    ck_assert_int_eq(receive(&byte, &fd), -1);
    ck_assert_int_eq(errno, EAGAIN);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("packet");
    tcase_add_checked_fixture(tcase, open_sockets, close_sockets);
    tcase_add_loop_test(tcase, the_packet_comes_before_the_end, 0, 2);
    tcase_add_test(tcase, an_empty_packet_leaves_no_descriptor);
    tcase_add_test(tcase, it_does_not_wait);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("packet", fill);
}
