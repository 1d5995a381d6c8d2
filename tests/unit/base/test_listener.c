/* test_listener.c: a listener is reached at IPv4 and IPv6, and a port that is taken is refused. */
#include "config.h"

#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/listener.h"

static uint16_t port_of(int fd)
{
    struct sockaddr_in6 own; /* an IPv4 address has its port at the same place */
    socklen_t length = sizeof(own);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&own, &length), 0);
    return ntohs(own.sin6_port);
}

START_TEST(is_reached_at_every_address)
{
    int listener = listener_open(0);
    ck_assert_int_ge(listener, 0);
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons(port_of(listener)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = four.sin_port, .sin6_addr = in6addr_loopback};
    int by_four = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(by_four, (struct sockaddr *)&four, sizeof(four)), 0);
    int by_six = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (by_six >= 0 && connect(by_six, (struct sockaddr *)&six, sizeof(six)) < 0)
        ck_assert_int_eq(errno, EADDRNOTAVAIL); /* this machine has no IPv6 */
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(accepted, 0);
    close(accepted);
    if (by_six >= 0)
        close(by_six);
    close(by_four);
    close(listener);
}
END_TEST

START_TEST(a_port_that_is_taken_is_refused)
{
    int first = listener_open(0);
    ck_assert_int_ge(first, 0);
    errno = 0;
    ck_assert_int_eq(listener_open(port_of(first)), -1);
    ck_assert_int_eq(errno, EADDRINUSE);
    close(first);
}
END_TEST

static void fill_suite(Suite *suite)
{
    TCase *tcase = tcase_create("listener");
    tcase_add_test(tcase, is_reached_at_every_address);
    tcase_add_test(tcase, a_port_that_is_taken_is_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("listener", fill_suite);
}
