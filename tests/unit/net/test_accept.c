/* test_accept.c: who connects to a rank and does not belong, and where descriptors are few. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/handshake.h"
#include "base/clock.h"
#include "endpoint_threads.h"

static int stranger_fds[300];
static int stranger_count;

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

static void close_strangers(void)
{
    while (stranger_count > 0)
        close(stranger_fds[--stranger_count]);
}

/* Rank 2 is on its way into a set with rank 1, which still waits for rank 0 in another. That is no reason to
 * warn; when its time has come, rank 2 comes again. */
START_TEST(who_comes_early_comes_again)
{
    int before = open_descriptors();
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
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

/* ---- Who does not belong ---- */

static void send_garbage(void)
{
    char garbage[4096];
    memset(garbage, 'G', sizeof(garbage));
    int fd = connect_raw(0);
    ck_assert_int_eq(send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
    await_line("does not speak hvd's protocol");
    close(fd);
}

/* Rank 2, which plays rank 1 or is itself, connects with something wrong; its own call must fail. */
static void come(int to, enum endpoint_purpose purpose)
{
    struct endpoint_thread *fake = &members[2];
    fake->want_count = 1;
    fake->wants[0] = (struct endpoint_connection){.rank = to, .purpose = purpose, .connect = true};
    fake->limit_us = SECOND; /* long enough to be judged on a slow machine */
    start(2);
    finish(2);
    ck_assert_int_eq(fake->rc, HVD_ERR_TIMEOUT);
    fake->want_count = 0;
}

static void come_with_wrong_key(void)
{
    members[2].peer_table.rank = 1;
    members[2].peer_table.key[0] ^= 1;
    come(0, ENDPOINT_CONTROL);
}

static void come_from_the_past(void)
{
    members[2].peer_table.rank = 1;
    members[2].peer_table.epoch--;
    come(0, ENDPOINT_CONTROL);
}

static void come_for_something_else(void)
{
    members[2].peer_table.rank = 1;
    come(0, ENDPOINT_CHAIN);
}

static void come_unexpected(void)
{
    come(0, ENDPOINT_CONTROL);
}

static void look_for_another(void)
{
    members[2].peer_table.rank = 2;
    members[2].peers[1].port = endpoint_port(members[0].endpoint);
    come(1, ENDPOINT_CONTROL);
}

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

static const struct {
    void (*worst)(void);
    const char *line;
} strangers[] = {
    {send_garbage, "2 endpoint: dropped a connection with 127.0.0.1: the other end does not"},
    {come_with_wrong_key, "the other end does not hold the key of this job"},
    {come_from_the_past, "the other end is of another start of this job"},
    {come_for_something_else, "the other end is a rank that is not expected now"},
    {come_unexpected, "the other end is a rank that is not expected now"},
    {look_for_another, "the other end looked for another rank"},
    {flood, "gave way to newer ones"},
};

/* Rank 0 waits for rank 1; a stranger does its worst; then rank 1 comes. */
START_TEST(only_the_wanted_is_let_in)
{
    int before = open_descriptors();
    open_ranks(3);
    want(0, 1, ENDPOINT_CONTROL, false);
    want(1, 0, ENDPOINT_CONTROL, true);
    start(0);
    strangers[_i].worst();
    await_line(strangers[_i].line);
    int64_t begun_us = clock_us();
    start(1);
    finish(0);
    finish(1);
    ck_assert_int_lt(clock_us() - begun_us, 3 * SECOND);
    expect_done(0);
    expect_done(1);
    check_pair(members[1].wants[0].fd, members[0].wants[0].fd);
    close_ranks();
    ck_assert_int_eq(open_descriptors(), before);
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
    int before = open_descriptors();
    start(1); /* behind the strangers, with its socket made before all are used up */
    for (int i = 0; i < 1000 && open_descriptors() == before; i++)
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

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("accept");
    tcase_set_timeout(tcase, 40);
    tcase_add_test(tcase, who_comes_early_comes_again);
    tcase_add_loop_test(tcase, only_the_wanted_is_let_in, 0, sizeof(strangers) / sizeof(strangers[0]));
    tcase_add_test(tcase, silence_is_dropped_in_time);
    tcase_add_test(tcase, a_low_limit_suffices_for_few_connections);
    tcase_add_test(tcase, strangers_give_way_where_descriptors_end);
    tcase_add_test(tcase, descriptors_that_end_are_named);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("accept", fill);
}
