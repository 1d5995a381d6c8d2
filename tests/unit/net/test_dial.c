/* test_dial.c: the addresses of a peer are tried in turn, until one of them leads to it. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/handshake.h"
#include "base/clock.h"
#include "endpoint_threads.h"

#define SWALLOWED 4 /* connections, more than a listener with a queue of 0 takes */

/* Whoever has several addresses on subnets of ours gets connections to all of them. */
START_TEST(lanes_take_the_addresses_in_turn)
{
    open_ranks(2);
    struct peer *peer = &members[0].peers[1];
    peer->address_count = 2;
    inet_pton(AF_INET6, "::ffff:127.0.0.2", &peer->addresses[0]);
    inet_pton(AF_INET6, "::ffff:127.0.0.3", &peer->addresses[1]);
    for (int lane = 0; lane < 4; lane++) {
        want_tagged(0, 1, (uint32_t)lane, true);
        want_tagged(1, 0, (uint32_t)lane, false);
        members[0].wants[lane].lane = lane;
    }
    start(0);
    start(1);
    finish(0);
    finish(1);
    for (int lane = 0; lane < 4; lane++) {
        expect_done(lane % 2);
        check_pair(members[0].wants[lane].fd, members[1].wants[lane].fd);
        expect_address(members[0].wants[lane].fd, lane % 2 == 0 ? "127.0.0.2" : "127.0.0.3");
    }
    close_ranks();
}
END_TEST

START_TEST(a_dead_address_is_passed_over)
{
    open_ranks(2);
    struct peer *peer = &members[1].peers[0];
    peer->address_count = 3;
    peer->addresses[2] = peer->addresses[0];
    inet_pton(AF_INET6, "::ffff:240.0.0.1", &peer->addresses[0]);
    inet_pton(AF_INET6, "::", &peer->addresses[1]);
    peer->addresses[1].s6_addr[0] = 0x01; /* 100::, the discard prefix */
    want(0, 1, ENDPOINT_CONTROL, false);
    want(1, 0, ENDPOINT_CONTROL, true);
    start(0);
    start(1);
    finish(0);
    finish(1);
    expect_done(0);
    expect_done(1);
    close_ranks();
}
END_TEST

/* A socket on [text], bound to *portp, or to any port if that is 0. -1 if *portp is in use. */
static int bind_raw(const char *text, uint16_t *portp)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*portp)};
    socklen_t length = sizeof(address);
    inet_pton(AF_INET, text, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, length) != 0) {
        ck_assert(*portp != 0 && errno == EADDRINUSE);
        close(fd);
        return -1;
    }
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *portp = ntohs(address.sin_port);
    return fd;
}

/* Sockets on two addresses with one port: another process may have taken it at the second one. */
static void bind_both(const char *first, const char *second, int fds[2], uint16_t *portp)
{
    for (int i = 0; i < 100; i++) {
        *portp = 0;
        fds[0] = bind_raw(first, portp);
        fds[1] = bind_raw(second, portp);
        if (fds[1] >= 0)
            return;
        close(fds[0]);
    }
    ck_abort_msg("no port is free on both %s and %s", first, second);
}

/* Be rank 0, up to the point where rank 1 has proved who it is. */
static void accept_rank_1(int listener, struct handshake *handshake)
{
    handshake_accept(handshake, members[0].peer_table.key,
                     accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    enum handshake_result result = HANDSHAKE_WAITS;
    while (result == HANDSHAKE_WAITS) {
        struct pollfd pollfd = {.fd = handshake->fd, .events = handshake_poll_events(handshake)};
        ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
        result = handshake_advance(handshake);
    }
    ck_assert_int_eq(result, HANDSHAKE_CLAIMED);
    ck_assert_uint_eq(handshake->claim.from, 1);
}

START_TEST(refused_connections_are_tried_again)
{
    struct handshake handshake;
    open_ranks(2);
    members[1].peers[0].port = 0;
    int listener = bind_raw("127.0.0.1", &members[1].peers[0].port); /* nobody listens yet */
    want(1, 0, ENDPOINT_CONTROL, true);
    start(1);
    await_line("Connection refused");
    ck_assert_int_eq(listen(listener, 5), 0);
    accept_rank_1(listener, &handshake);
    /* the confirmation and what follows it come in one segment: only the confirmation is read */
    int cork = 1;
    char heard[2] = "";
    ck_assert_int_eq(setsockopt(handshake.fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof(cork)), 0);
    handshake_admit(&handshake);
    ck_assert_int_eq(handshake_advance(&handshake), HANDSHAKE_DONE);
    ck_assert_int_eq(send(handshake.fd, "y", 1, MSG_NOSIGNAL), 1);
    cork = 0;
    ck_assert_int_eq(setsockopt(handshake.fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof(cork)), 0);
    finish(1);
    expect_done(1);
    struct pollfd first = {.fd = members[1].wants[0].fd, .events = POLLIN};
    ck_assert_int_eq(poll(&first, 1, 5000), 1);
    ck_assert_int_eq(recv(first.fd, heard, sizeof(heard), 0), 1);
    ck_assert_int_eq(heard[0], 'y');
    check_pair(members[1].wants[0].fd, handshake.fd);
    handshake_close(&handshake);
    close(listener);
    close_ranks();
}
END_TEST

/* The confirmation may be on its way for long, where packets are lost: the acceptor has done its part then.
 */
START_TEST(a_connection_that_may_be_confirmed_is_not_given_up)
{
    struct handshake handshake;
    open_ranks(2);
    members[1].peers[0].port = 0;
    int listener = bind_raw("127.0.0.1", &members[1].peers[0].port);
    ck_assert_int_eq(listen(listener, 5), 0);
    members[1].limit_us = 4 * HANDSHAKE_TIMEOUT_US;
    want(1, 0, ENDPOINT_CONTROL, true);
    start(1);
    accept_rank_1(listener, &handshake);
    struct pollfd given_up = {.fd = handshake.fd, .events = POLLIN};
    ck_assert_int_eq(poll(&given_up, 1, (int)((HANDSHAKE_TIMEOUT_US + 2 * SECOND) / 1000)), 0);
    handshake_admit(&handshake);
    ck_assert_int_eq(handshake_advance(&handshake), HANDSHAKE_DONE);
    finish(1);
    expect_done(1);
    check_pair(members[1].wants[0].fd, handshake.fd);
    handshake_close(&handshake);
    close(listener);
    close_ranks();
}
END_TEST

/* The first address swallows connections, as a firewall does: the next one's turn comes well before the
 * limit of a handshake. */
START_TEST(an_address_that_does_not_answer_is_left)
{
    struct handshake handshake;
    open_ranks(2);
    struct peer *peer = &members[1].peers[0];
    int fds[2], swallowed[SWALLOWED];
    bind_both("127.0.0.2", "127.0.0.1", fds, &peer->port);
    int hole = fds[0], listener = fds[1];
    ck_assert_int_eq(listen(hole, 0), 0);
    ck_assert_int_eq(listen(listener, 5), 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(peer->port)};
    inet_pton(AF_INET, "127.0.0.2", &address.sin_addr);
    for (int i = 0; i < SWALLOWED; i++) {
        swallowed[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(swallowed[i], (struct sockaddr *)&address, sizeof(address));
    }
    peer->address_count = 2;
    peer->addresses[1] = peer->addresses[0];
    inet_pton(AF_INET6, "::ffff:127.0.0.2", &peer->addresses[0]);
    want(1, 0, ENDPOINT_CONTROL, true);
    int64_t begun_us = clock_us();
    start(1);
    accept_rank_1(listener, &handshake);
    ck_assert_int_gt(clock_us() - begun_us, SECOND);
    ck_assert_int_lt(clock_us() - begun_us, HANDSHAKE_TIMEOUT_US - SECOND);
    handshake_admit(&handshake);
    ck_assert_int_eq(handshake_advance(&handshake), HANDSHAKE_DONE);
    finish(1);
    expect_done(1);
    ck_assert(strstr(lines, "does not answer") != NULL);
    handshake_close(&handshake);
    for (int i = 0; i < SWALLOWED; i++)
        close(swallowed[i]);
    close(listener);
    close(hole);
    close_ranks();
}
END_TEST

/* A stranger listens where rank 0 should: it is found out, and the next address is tried. */
START_TEST(a_strange_listener_is_found_out)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    socklen_t length = sizeof(address);
    open_ranks(2);
    int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) < 0)
        ck_abort_msg("cannot listen on ::1");
    ck_assert_int_eq(listen(listener, 5), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    members[1].peers[0].port = ntohs(address.sin6_port);
    members[1].peers[0].addresses[0] = in6addr_loopback;
    members[1].limit_us = SECOND;
    want(1, 0, ENDPOINT_CONTROL, true);
    start(1);
    int fd = accept(listener, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    char handshake[100] = "220 mail.example.com ESMTP, at your service, as always and for ever";
    ck_assert_int_eq(send(fd, handshake, sizeof(handshake), MSG_NOSIGNAL), sizeof(handshake));
    await_line("dropped a connection with ::1: the other end does not speak hvd's protocol");
    finish(1);
    expect_timeout(1, "rank 1 (n1) could not connect to rank 0 (n0) in time; port ");
    close(fd);
    close(listener);
    close_ranks();
}
END_TEST

START_TEST(what_was_tried_is_said)
{
    open_ranks(2);
    endpoint_close(members[0].endpoint);
    members[0].endpoint = NULL;
    members[1].peers[0].address_count = 2;
    members[1].peers[0].addresses[1] = in6addr_loopback;
    want(1, 0, ENDPOINT_CONTROL, true);
    members[1].limit_us = SECOND / 4;
    start(1);
    finish(1);
    expect_timeout(1, "127.0.0.1, ::1 was tried, the last time: Connection refused");
    close_ranks();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("dial");
    tcase_set_timeout(tcase, 40);
    tcase_add_test(tcase, lanes_take_the_addresses_in_turn);
    tcase_add_test(tcase, a_dead_address_is_passed_over);
    tcase_add_test(tcase, a_connection_that_may_be_confirmed_is_not_given_up);
    tcase_add_test(tcase, refused_connections_are_tried_again);
    tcase_add_test(tcase, an_address_that_does_not_answer_is_left);
    tcase_add_test(tcase, a_strange_listener_is_found_out);
    tcase_add_test(tcase, what_was_tried_is_said);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("dial", fill);
}
