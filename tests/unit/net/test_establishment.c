/* test_establishment.c: connections that are made at the same time by ranks that are threads here. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "endpoint_threads.h"

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);
    ck_assert_int_eq(getsockopt(fd, level, name, &value, &length), 0);
    return value;
}

START_TEST(a_ring_closes)
{
    int before = open_descriptors();
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
    ck_assert_int_eq(open_descriptors(), before);
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

START_TEST(a_star_opens)
{
    int before = open_descriptors();
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
    ck_assert_int_eq(open_descriptors(), before);
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

START_TEST(who_is_missing_is_named)
{
    int before = open_descriptors();
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
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

/* The launcher says that a rank was lost: it may be the one that is waited for. */
START_TEST(news_end_the_wait)
{
    int before = open_descriptors();
    int news[2];
    ck_assert_int_eq(pipe(news), 0);
    open_ranks(2);
    members[0].peer_table.news = &news[0];
    want(0, 1, ENDPOINT_CONTROL, true);
    start(0);
    ck_assert_int_eq(write(news[1], "", 1), 1);
    finish(0);
    ck_assert_int_eq(members[0].rc, HVD_ERR_RANK_LOST);
    ck_assert_str_eq(members[0].err.text, "another rank was lost as the job began again");
    close_ranks();
    close(news[0]);
    close(news[1]);
    ck_assert_int_eq(open_descriptors(), before);
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
    TCase *tcase = tcase_create("establishment");
    tcase_set_timeout(tcase, 40);
    tcase_add_test(tcase, a_ring_closes);
    tcase_add_test(tcase, a_ring_of_two_has_two_connections);
    tcase_add_test(tcase, tags_tell_connections_apart);
    tcase_add_test(tcase, a_star_opens);
    tcase_add_test(tcase, sockets_are_set_up);
    tcase_add_test(tcase, who_is_missing_is_named);
    tcase_add_test(tcase, news_end_the_wait);
    tcase_add_test(tcase, wants_are_checked);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("establishment", fill);
}
