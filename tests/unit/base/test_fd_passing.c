/* test_fd_passing.c: exactly the descriptors that are meant arrive, and what is beyond them is closed. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd_passing.h"

static int sockets[2];
static int null_fd;

static void open_sockets(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(null_fd, 0);
}

static void close_sockets(void)
{
    close(sockets[0]);
    close(sockets[1]);
    close(null_fd);
}

static void send_fds(int count)
{
    struct fd_passing room;
    int fds[FD_PASSING_MAX];
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    for (int i = 0; i < FD_PASSING_MAX; i++)
        fds[i] = null_fd;
    fd_passing_attach(&message, &room, fds, count);
    ck_assert_int_eq(sendmsg(sockets[0], &message, 0), 1);
}

static int count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Receive into [fds], which has room for [expected], and close them. Returns how many came. */
static int receive_fds(int expected, int taken, bool *truncatedp)
{
    struct fd_passing room;
    int fds[FD_PASSING_MAX];
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    for (int i = 0; i < FD_PASSING_MAX; i++)
        fds[i] = -1;
    fd_passing_expect(&message, &room, expected);
    ck_assert_int_eq(recvmsg(sockets[1], &message, MSG_CMSG_CLOEXEC), 1);
    int count = fd_passing_take(&message, fds, taken);
    *truncatedp = (message.msg_flags & MSG_CTRUNC) != 0;
    for (int i = 0; i < FD_PASSING_MAX; i++) {
        ck_assert(i < count ? fds[i] >= 0 : fds[i] == -1);
        if (i < count)
            close(fds[i]);
    }
    return count;
}

START_TEST(what_is_meant_arrives)
{
    bool truncated = true;
    for (int count = 0; count <= FD_PASSING_MAX; count++) {
        int before = count_open();
        send_fds(count);
        ck_assert_int_eq(receive_fds(count, count, &truncated), count);
        ck_assert(!truncated);
        ck_assert_int_eq(count_open(), before);
    }
}
END_TEST

START_TEST(one_too_many_is_refused)
{
    bool truncated = false;
    for (int count = 1; count < FD_PASSING_MAX; count++) {
        int before = count_open();
        send_fds(count + 1);
        ck_assert_int_eq(receive_fds(count, count, &truncated), count);
        ck_assert(truncated);
        ck_assert_int_eq(count_open(), before);
    }
}
END_TEST

START_TEST(what_nobody_takes_is_closed)
{
    bool truncated = true;
    int before = count_open();
    send_fds(4);
    ck_assert_int_eq(receive_fds(FD_PASSING_MAX, 3, &truncated), 3);
    ck_assert(!truncated);
    ck_assert_int_eq(count_open(), before);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("fd_passing");
    tcase_add_checked_fixture(tcase, open_sockets, close_sockets);
    tcase_add_test(tcase, what_is_meant_arrives);
    tcase_add_test(tcase, one_too_many_is_refused);
    tcase_add_test(tcase, what_nobody_takes_is_closed);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("fd_passing", fill);
}
