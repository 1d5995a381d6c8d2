/* test_connection.c: who is at the ends of a connection, and whether its other end still answers: one that
 * reads nothing does, one behind a dead link does not. The links are loopback in a network of the test's own.
 */
#include "config.h"
#include "unit.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/connection.h"
#include "net/peer_table.h"
#include "own_network.h"

#define LEASE_US INT64_C(400000)
#define LOOK_US  INT64_C(40000)

/* [0] is the end that is looked at. */
static int ends[2];

static void connect_ends(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(ends[0], (struct sockaddr *)&address, length), 0);
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(ends[1], 0);
    close(listener);
}

static void close_ends(void)
{
    close(ends[0]);
    close(ends[1]);
}

static void pause_us(int64_t us)
{
    struct timespec left = clock_timespec(us);
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* Look at the connection until it is dead, for at most [limit_us]; returns how long that took, or -1. */
static int64_t await_death(struct connection_silence *silence, int64_t limit_us)
{
    int64_t begun_us = clock_us();
    for (int64_t now_us = begun_us; now_us - begun_us < limit_us; now_us = clock_us()) {
        if (connection_is_dead(silence, ends[0], LEASE_US, now_us))
            return now_us - begun_us;
        pause_us(LOOK_US);
    }
    return -1;
}

/* Send until the other end has no more room. */
static void fill_up(void)
{
    static char bytes[65536];
    while (send(ends[0], bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        continue;
    ck_assert_int_eq(errno, EAGAIN);
}

START_TEST(an_idle_connection_is_not_dead)
{
    struct connection_silence silence = {0};
    connect_ends();
    ck_assert_int_lt(await_death(&silence, 2 * LEASE_US), 0);
    ck_assert(!connection_is_asking(&silence));
    close_ends();
}
END_TEST

/* A rank that computes, or is stopped, reads nothing: its kernel says so when it is asked. */
START_TEST(who_reads_nothing_is_not_dead)
{
    struct connection_silence silence = {0};
    connect_ends();
    fill_up();
    ck_assert_int_lt(await_death(&silence, 6 * LEASE_US), 0);
    close_ends();
}
END_TEST

/* What is on its way finds no memory at the other end, which said before that it had some. */
static void outgrow_memory(void)
{
    static char bytes[20000];
    int least = 1;
    ck_assert_int_eq(send(ends[0], bytes, sizeof(bytes), MSG_NOSIGNAL), (int)sizeof(bytes));
    ck_assert_int_eq(setsockopt(ends[1], SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)), 0);
    fill_up();
}

static uint32_t segments_heard(void)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);
    ck_assert_int_eq(getsockopt(ends[0], IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    return info.tcpi_segs_in;
}

/* Its kernel says so each time something is sent again, and that is done ever more slowly. */
START_TEST(who_has_no_memory_is_not_dead)
{
    struct connection_silence silence = {0};
    connect_ends();
    outgrow_memory();
    uint32_t heard = segments_heard();
    pause_us(2 * LEASE_US);
    if (segments_heard() == heard)
        fprintf(stderr, "skipped: this kernel drops without a word what it has no memory for\n");
    else
        ck_assert_int_lt(await_death(&silence, 6 * LEASE_US), 0);
    close_ends();
}
END_TEST

/* Nothing was on its way for longer than a lease: what is sent then has a lease of its own. */
START_TEST(silence_begins_when_something_is_sent)
{
    struct connection_silence silence = {0};
    if (!own_network())
        return;
    connect_ends();
    connection_is_dead(&silence, ends[0], LEASE_US, clock_us());
    pause_us(2 * LEASE_US);
    set_loopback(false);
    ck_assert_int_eq(send(ends[0], "x", 1, MSG_NOSIGNAL), 1);
    ck_assert(!connection_is_dead(&silence, ends[0], LEASE_US, clock_us()));
    ck_assert(connection_is_asking(&silence));
    int64_t took_us = await_death(&silence, 20 * LEASE_US);
    ck_assert_int_ge(took_us, LEASE_US - LOOK_US);
    close_ends();
}
END_TEST

/* Data is on its way when the link dies; or there was no room for it, or no memory, and no question for more
 * is answered. */
START_TEST(a_dead_link_is_noticed)
{
    struct connection_silence silence = {0};
    if (!own_network())
        return;
    connect_ends();
    if (_i == 0) {
        set_loopback(false);
        ck_assert_int_eq(send(ends[0], "x", 1, MSG_NOSIGNAL), 1);
    } else if (_i == 1) {
        fill_up();
        set_loopback(false);
    } else {
        outgrow_memory();
        set_loopback(false);
    }
    ck_assert_int_ge(await_death(&silence, 20 * LEASE_US), LEASE_US - LOOK_US);
    close_ends();
}
END_TEST

/* A link that comes back in time did not die. */
START_TEST(a_short_gap_is_survived)
{
    struct connection_silence silence = {0};
    if (!own_network())
        return;
    connect_ends();
    set_loopback(false);
    ck_assert_int_eq(send(ends[0], "x", 1, MSG_NOSIGNAL), 1);
    ck_assert_int_lt(await_death(&silence, LEASE_US / 2), 0);
    set_loopback(true);
    int64_t limit_us = clock_us() + 10 * LEASE_US;
    while (connection_is_asking(&silence) && clock_us() < limit_us) {
        ck_assert(!connection_is_dead(&silence, ends[0], 4 * LEASE_US, clock_us()));
        pause_us(LOOK_US);
    }
    ck_assert(!connection_is_asking(&silence));
    close_ends();
}
END_TEST

static struct peer peers[] = {{.host = "n1"}, {.host = "n2"}};
static const struct peer_table peer_table = {.rank = 1, .size = 2, .peers = peers};

START_TEST(both_ends_are_named)
{
    struct connection_ends named;
    char text[CONNECTION_ENDS_BYTES];
    connect_ends();
    connection_ends_of(&named, 0, ends[0]);
    close_ends();
    connection_ends_text(&named, &peer_table, text);
    ck_assert_str_eq(text, "rank 1 (n2) at 127.0.0.1 with rank 0 (n1) at 127.0.0.1");
}
END_TEST

START_TEST(causes_name_the_lease)
{
    static const struct {
        int error;
        const char *text;
    } rows[] = {
        {0, "was closed: the other end has ended, and its own messages say why"},
        {ETIMEDOUT, "is dead: nothing was heard over it for 2.5 s (--hvd-lease)"},
        {ECONNRESET,
         "was reset: the other end has ended, or there nothing was heard over it for 2.5 s (--hvd-lease)"},
        {EHOSTUNREACH, "is dead (No route to host): nothing was heard over it for 2.5 s (--hvd-lease)"},
        {ENOBUFS, "broke: No buffer space available"},
    };
    char text[CONNECTION_CAUSE_BYTES];
    connection_cause_text(rows[_i].error, 2500000, text);
    ck_assert_str_eq(text, rows[_i].text);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("connection");
    tcase_set_timeout(tcase, 40);
    tcase_add_test(tcase, an_idle_connection_is_not_dead);
    tcase_add_test(tcase, who_reads_nothing_is_not_dead);
    tcase_add_test(tcase, who_has_no_memory_is_not_dead);
    tcase_add_test(tcase, silence_begins_when_something_is_sent);
    tcase_add_loop_test(tcase, a_dead_link_is_noticed, 0, 3);
    tcase_add_test(tcase, a_short_gap_is_survived);
    tcase_add_test(tcase, both_ends_are_named);
    tcase_add_loop_test(tcase, causes_name_the_lease, 0, 5);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("connection", fill);
}
