/* test_endpoint.c: many connections at once between ranks that are threads here, and whoever else comes
 * along. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "auth/handshake.h"
#include "endpoint_threads.h"

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);
    ck_assert_int_eq(getsockopt(fd, level, name, &value, &length), 0);
    return value;
}

static int connect_raw(int rank)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(endpoint_port(members[rank].endpoint))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* ---- All is well ---- */

START_TEST(a_ring_closes)
{
    int before = count_fds();
    open_ranks(4);
    for (int rank = 0; rank < 4; rank++) {
        want(rank, (rank + 1) % 4, ENDPOINT_CHAIN, true);
        want(rank, (rank + 3) % 4, ENDPOINT_CHAIN, false);
    }
    for (int rank = 0; rank < 4; rank++)
        start(rank);
    for (int rank = 0; rank < 4; rank++)
        finish(rank);
    for (int rank = 0; rank < 4; rank++) {
        expect_done(rank);
        check_pair(members[rank].wants[0].fd, members[(rank + 1) % 4].wants[1].fd);
        check_pair(members[(rank + 1) % 4].wants[1].fd, members[rank].wants[0].fd);
    }
    close_ranks();
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(a_ring_of_two_has_two_connections)
{
    open_ranks(2);
    for (int rank = 0; rank < 2; rank++) {
        want(rank, 1 - rank, ENDPOINT_CHAIN, true);
        want(rank, 1 - rank, ENDPOINT_CHAIN, false);
        start(rank);
    }
    for (int rank = 0; rank < 2; rank++)
        finish(rank);
    for (int rank = 0; rank < 2; rank++) {
        expect_done(rank);
        check_pair(members[rank].wants[0].fd, members[1 - rank].wants[1].fd);
    }
    close_ranks();
}
END_TEST

/* The two ends ask in different orders. */
START_TEST(tags_tell_connections_apart)
{
    open_ranks(2);
    for (uint32_t tag = 1; tag <= 4; tag++) {
        want_tagged(0, 1, tag << 24, true);
        want_tagged(1, 0, (5 - tag) << 24, false);
    }
    start(0);
    start(1);
    finish(0);
    finish(1);
    for (int i = 0; i < 4; i++) {
        expect_done(i % 2);
        check_pair(members[0].wants[i].fd, members[1].wants[3 - i].fd);
    }
    close_ranks();
}
END_TEST

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

/* Rank 2 is on its way into a set with rank 1, which still waits for rank 0 in another. That is no reason to
 * warn; when its time has come, rank 2 comes again. */
START_TEST(who_comes_early_comes_again)
{
    int before = count_fds();
    open_ranks(3);
    want_tagged(0, 1, 1, true);
    want_tagged(1, 0, 1, false);
    want_tagged(2, 1, 2, true);
    start(1);
    start(2);
    await_line(
        "3 endpoint: dropped a connection with 127.0.0.1: the other end is a rank that is not expected now");
    start(0);
    finish(0);
    finish(1);
    expect_done(0);
    expect_done(1);
    int first = members[1].wants[0].fd;
    members[1].want_count = 0;
    want_tagged(1, 2, 2, false);
    start(1);
    finish(1);
    finish(2);
    expect_done(1);
    expect_done(2);
    check_pair(members[0].wants[0].fd, first);
    check_pair(members[2].wants[0].fd, members[1].wants[0].fd);
    ck_assert_ptr_null(strstr(lines, "2 endpoint"));
    close(first);
    close_ranks();
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(a_star_opens)
{
    int before = count_fds();
    open_ranks(8);
    for (int rank = 1; rank < 8; rank++) {
        want(rank, 0, ENDPOINT_CONTROL, true);
        want(0, rank, ENDPOINT_CONTROL, false);
        start(rank);
    }
    start(0);
    for (int rank = 0; rank < 8; rank++)
        finish(rank);
    for (int rank = 0; rank < 8; rank++)
        expect_done(rank);
    for (int rank = 1; rank < 8; rank++)
        check_pair(members[rank].wants[0].fd, members[0].wants[rank - 1].fd);
    close_ranks();
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(sockets_are_set_up)
{
    open_ranks(2);
    want(0, 1, ENDPOINT_CONTROL, false);
    want(1, 0, ENDPOINT_CONTROL, true);
    start(0);
    start(1);
    for (int rank = 0; rank < 2; rank++) {
        finish(rank);
        expect_done(rank);
        int fd = members[rank].wants[0].fd;
        ck_assert_int_eq(option_of(fd, IPPROTO_TCP, TCP_NODELAY), 1);
        ck_assert_int_eq(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
        ck_assert_int_eq(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), LEASE_US / 1000);
        int silent_s = option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                       option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL) * option_of(fd, IPPROTO_TCP, TCP_KEEPCNT);
        ck_assert_int_le(silent_s, LEASE_US / SECOND);
        ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
        ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
    close_ranks();
}
END_TEST

/* ---- Who does not belong ---- */

/* Rank 0 waits for rank 1; a stranger does its worst; then rank 1 comes. */
static void expect_only_the_wanted(void (*worst)(void), const char *line)
{
    int before = count_fds();
    open_ranks(3);
    want(0, 1, ENDPOINT_CONTROL, false);
    want(1, 0, ENDPOINT_CONTROL, true);
    start(0);
    worst();
    await_line(line);
    int64_t begun_us = clock_us();
    start(1);
    finish(0);
    finish(1);
    ck_assert_int_lt(clock_us() - begun_us, 3 * SECOND);
    expect_done(0);
    expect_done(1);
    check_pair(members[1].wants[0].fd, members[0].wants[0].fd);
    close_ranks();
    ck_assert_int_eq(count_fds(), before);
}

static int stranger_fds[300];
static int stranger_count;

static void close_strangers(void)
{
    while (stranger_count > 0)
        close(stranger_fds[--stranger_count]);
}

static void send_garbage(void)
{
    char garbage[4096];
    memset(garbage, 'G', sizeof(garbage));
    int fd = connect_raw(0);
    ck_assert_int_eq(send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
    await_line("does not speak hvd's protocol");
    close(fd);
}

START_TEST(garbage_is_dropped)
{
    expect_only_the_wanted(send_garbage,
                           "2 endpoint: dropped a connection with 127.0.0.1: the other end does not");
}
END_TEST

/* Rank 2 plays rank 1, or is itself, with something wrong; its own call must fail. */
static void impersonate(struct endpoint_thread *fake, enum endpoint_purpose purpose)
{
    fake->want_count = 1;
    fake->wants[0] = (struct endpoint_connection){.rank = 0, .purpose = purpose, .connect = true};
    fake->limit_us = SECOND / 5;
    start((int)(fake - members));
    finish((int)(fake - members));
    ck_assert_int_eq(fake->rc, HVD_ERR_TIMEOUT);
    fake->want_count = 0;
}

static void come_with_wrong_key(void)
{
    members[2].peer_table.rank = 1;
    members[2].peer_table.key[0] ^= 1;
    impersonate(&members[2], ENDPOINT_CONTROL);
}

START_TEST(a_wrong_key_is_dropped)
{
    expect_only_the_wanted(come_with_wrong_key, "the other end does not hold the key of this job");
}
END_TEST

static void come_from_the_past(void)
{
    members[2].peer_table.rank = 1;
    members[2].peer_table.epoch--;
    impersonate(&members[2], ENDPOINT_CONTROL);
}

START_TEST(another_epoch_is_dropped)
{
    expect_only_the_wanted(come_from_the_past, "the other end is of another start of this job");
}
END_TEST

static void come_for_something_else(void)
{
    members[2].peer_table.rank = 1;
    impersonate(&members[2], ENDPOINT_CHAIN);
}

START_TEST(another_purpose_is_dropped)
{
    expect_only_the_wanted(come_for_something_else, "the other end is a rank that is not expected now");
}
END_TEST

static void come_unexpected(void)
{
    impersonate(&members[2], ENDPOINT_CONTROL);
}

START_TEST(another_rank_is_dropped)
{
    expect_only_the_wanted(come_unexpected, "the other end is a rank that is not expected now");
}
END_TEST

static void look_for_another(void)
{
    members[2].peer_table.rank = 2;
    members[2].peers[1].port = endpoint_port(members[0].endpoint);
    members[2].want_count = 1;
    members[2].wants[0] =
        (struct endpoint_connection){.rank = 1, .purpose = ENDPOINT_CONTROL, .connect = true};
    members[2].limit_us = SECOND / 5;
    start(2);
    finish(2);
    ck_assert_int_eq(members[2].rc, HVD_ERR_TIMEOUT);
    members[2].want_count = 0;
}

START_TEST(the_address_of_another_is_noticed)
{
    expect_only_the_wanted(look_for_another, "the other end looked for another rank");
}
END_TEST

static void flood(void)
{
    for (stranger_count = 0; stranger_count < 200; stranger_count++)
        stranger_fds[stranger_count] = connect_raw(0);
    await_line("gave way to newer ones");
    /* the first was among those that gave way: it hears the challenge, then the end */
    struct pollfd pollfd = {.fd = stranger_fds[0], .events = POLLIN};
    char bytes[1024];
    ssize_t got = 1;
    for (int i = 0; i < 10 && got > 0; i++) {
        ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
        got = recv(stranger_fds[0], bytes, sizeof(bytes), 0);
    }
    ck_assert_int_le(got, 0);
    close_strangers();
}

START_TEST(a_flood_does_not_keep_the_wanted_out)
{
    expect_only_the_wanted(flood, "gave way to newer ones");
}
END_TEST

/* ---- Few descriptors ---- */

static void lower_descriptors(int spare)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int lowest = dup(0);
    close(lowest);
    limit.rlim_cur = (rlim_t)(lowest + spare);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A process may poll no more entries than it may have descriptors. */
START_TEST(a_low_limit_suffices_for_few_connections)
{
    open_ranks(2);
    want(0, 1, ENDPOINT_CONTROL, false);
    want(1, 0, ENDPOINT_CONTROL, true);
    lower_descriptors(8);
    start(0);
    start(1);
    finish(0);
    finish(1);
    expect_done(0);
    expect_done(1);
    close_ranks();
}
END_TEST

/* Silent connections take all descriptors there are: the oldest gives way. */
START_TEST(strangers_give_way_where_descriptors_end)
{
    open_ranks(2);
    want(0, 1, ENDPOINT_CONTROL, false);
    want(1, 0, ENDPOINT_CONTROL, true);
    for (stranger_count = 0; stranger_count < 40; stranger_count++)
        stranger_fds[stranger_count] = connect_raw(0);
    int before = count_fds();
    start(1); /* behind the strangers, with its socket made before all are used up */
    for (int i = 0; i < 1000 && count_fds() == before; i++)
        poll(NULL, 0, 10);
    lower_descriptors(8);
    start(0);
    finish(0);
    finish(1);
    expect_done(0);
    expect_done(1);
    close_strangers();
    close_ranks();
    ck_assert_msg(strstr(lines, "gave way: no descriptor was left") != NULL, "%s", lines);
    ck_assert_msg(strstr(lines, "such connections") != NULL, "%s", lines);
}
END_TEST

START_TEST(descriptors_that_end_are_named)
{
    char expected[200];
    open_ranks(3);
    want(0, 1, ENDPOINT_CONTROL, true);
    want(0, 2, ENDPOINT_CONTROL, true);
    struct rlimit limit;
    lower_descriptors(1);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int64_t begun_us = clock_us();
    start(0);
    finish(0);
    ck_assert_int_lt(clock_us() - begun_us, 5 * SECOND);
    ck_assert_int_eq(members[0].rc, HVD_ERR_NO_MEMORY);
    snprintf(
        expected, sizeof(expected),
        "cannot connect to the other ranks: all %d descriptors that this process may have are open; raise "
        "`ulimit -n` to at least %d",
        (int)limit.rlim_cur, (int)limit.rlim_cur + 2);
    ck_assert_msg(strstr(members[0].err.text, expected) != NULL, "%s", members[0].err.text);
    close_ranks();
}
END_TEST

START_TEST(silence_is_dropped_in_time)
{
    open_ranks(2);
    want(0, 1, ENDPOINT_CONTROL, false);
    start(0);
    int64_t begun_us = clock_us();
    int fd = connect_raw(0);
    ck_assert_int_eq(send(fd, "hvda\4", 5, MSG_NOSIGNAL), 5); /* half a handshake */
    await_line("did not finish its handshake in time");
    ck_assert_int_ge(clock_us() - begun_us, HANDSHAKE_TIMEOUT_US - SECOND);
    ck_assert_int_le(clock_us() - begun_us, HANDSHAKE_TIMEOUT_US + 2 * SECOND);
    close(fd);
    want(1, 0, ENDPOINT_CONTROL, true);
    start(1);
    finish(0);
    finish(1);
    expect_done(0);
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

/* ---- Who is late, or does not come ---- */

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

/* The first address swallows connections, as a firewall does: the next one's turn comes well before the
 * limit of a handshake. */
START_TEST(an_address_that_does_not_answer_is_left)
{
    struct handshake handshake;
    open_ranks(2);
    struct peer *peer = &members[1].peers[0];
    int fds[2];
    bind_both("127.0.0.2", "127.0.0.1", fds, &peer->port);
    int hole = fds[0], listener = fds[1];
    ck_assert_int_eq(listen(hole, 0), 0);
    ck_assert_int_eq(listen(listener, 5), 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(peer->port)};
    inet_pton(AF_INET, "127.0.0.2", &address.sin_addr);
    for (stranger_count = 0; stranger_count < 4; stranger_count++) { /* more than it queues */
        stranger_fds[stranger_count] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(stranger_fds[stranger_count], (struct sockaddr *)&address, sizeof(address));
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
    close_strangers();
    close(listener);
    close(hole);
    close_ranks();
}
END_TEST

START_TEST(who_is_missing_is_named)
{
    int before = count_fds();
    open_ranks(4);
    want(0, 1, ENDPOINT_CONTROL, false);
    want(0, 2, ENDPOINT_CONTROL, false);
    want(0, 3, ENDPOINT_CONTROL, true);
    want(1, 0, ENDPOINT_CONTROL, true);
    members[0].limit_us = SECOND / 2;
    int64_t begun_us = clock_us();
    start(0);
    start(1);
    finish(0);
    finish(1);
    ck_assert_int_le(clock_us() - begun_us, 2 * SECOND);
    expect_done(1);
    expect_timeout(0, "rank 2 (n2) has not connected to rank 0 (n0) in time");
    ck_assert_ptr_nonnull(strstr(members[0].err.text, "; 1 more rank is missing"));
    close_ranks();
    ck_assert_int_eq(count_fds(), before);
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

START_TEST(wants_are_checked)
{
    open_ranks(2);
    want(0, 2, ENDPOINT_CONTROL, false);
    establish(&members[0]);
    ck_assert_int_eq(members[0].rc, HVD_ERR_INVALID);
    members[0].wants[0].rank = 0;
    establish(&members[0]);
    ck_assert_int_eq(members[0].rc, HVD_ERR_INVALID);
    members[0].want_count = 0;
    establish(&members[0]);
    ck_assert_int_eq(members[0].rc, HVD_OK);
    close_ranks();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("endpoint");
    tcase_set_timeout(tcase, 40);
    tcase_add_test(tcase, a_ring_closes);
    tcase_add_test(tcase, a_ring_of_two_has_two_connections);
    tcase_add_test(tcase, tags_tell_connections_apart);
    tcase_add_test(tcase, lanes_take_the_addresses_in_turn);
    tcase_add_test(tcase, who_comes_early_comes_again);
    tcase_add_test(tcase, a_star_opens);
    tcase_add_test(tcase, sockets_are_set_up);
    tcase_add_test(tcase, garbage_is_dropped);
    tcase_add_test(tcase, a_wrong_key_is_dropped);
    tcase_add_test(tcase, another_epoch_is_dropped);
    tcase_add_test(tcase, another_purpose_is_dropped);
    tcase_add_test(tcase, another_rank_is_dropped);
    tcase_add_test(tcase, the_address_of_another_is_noticed);
    tcase_add_test(tcase, a_flood_does_not_keep_the_wanted_out);
    tcase_add_test(tcase, a_low_limit_suffices_for_few_connections);
    tcase_add_test(tcase, strangers_give_way_where_descriptors_end);
    tcase_add_test(tcase, descriptors_that_end_are_named);
    tcase_add_test(tcase, silence_is_dropped_in_time);
    tcase_add_test(tcase, a_strange_listener_is_found_out);
    tcase_add_test(tcase, a_dead_address_is_passed_over);
    tcase_add_test(tcase, refused_connections_are_tried_again);
    tcase_add_test(tcase, an_address_that_does_not_answer_is_left);
    tcase_add_test(tcase, who_is_missing_is_named);
    tcase_add_test(tcase, what_was_tried_is_said);
    tcase_add_test(tcase, wants_are_checked);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("endpoint", fill);
}
