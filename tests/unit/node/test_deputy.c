/* test_deputy.c: a deputy ends the connections of a leader that has died, although others hold them open. */
#include "unit.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/deputy.h"

#define CONNECTIONS 3

static int ends[2];
static int near[CONNECTIONS], far[CONNECTIONS];

static void open_all(void)
{
    ck_assert_int_eq(deputy_open(ends), 0);
    for (int i = 0; i < CONNECTIONS; i++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        near[i] = pair[0];
        far[i] = pair[1];
    }
}

static void close_all(void)
{
    close(ends[0]);
    close(ends[1]);
    for (int i = 0; i < CONNECTIONS; i++) {
        close(near[i]);
        close(far[i]);
    }
}

static bool has_ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

START_TEST(connections_end_that_others_hold_open)
{
    int status = 0;
    const int fds[] = {-1, near[0], near[1]};
    pid_t leader = fork();
    ck_assert_int_ge(leader, 0);
    if (leader == 0) {
        deputy_entrust(ends[0], fds, 3);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(leader, &status, 0), leader); /* this process holds copies */
    ck_assert(!has_ended(far[0]) && !has_ended(far[1]));
    deputy_end_connections(ends[1]);
    ck_assert(has_ended(far[0]) && has_ended(far[1]));
    ck_assert(!has_ended(far[2]));
}
END_TEST

START_TEST(nothing_is_left_where_nothing_was_entrusted)
{
    int before = dup(0);
    close(before);
    deputy_entrust(-1, near, CONNECTIONS);
    deputy_entrust(ends[0], near, 0);
    deputy_end_connections(-1);
    deputy_end_connections(ends[1]);
    ck_assert(!has_ended(far[0]));
    deputy_entrust(ends[0], near, 1);
    deputy_end_connections(ends[1]);
    deputy_end_connections(ends[1]);
    ck_assert(has_ended(far[0]) && !has_ended(far[1]));
    int after = dup(0);
    close(after);
    ck_assert_int_eq(before, after); /* no descriptor stays open */
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("deputy");
    tcase_add_checked_fixture(tcase, open_all, close_all);
    tcase_add_test(tcase, connections_end_that_others_hold_open);
    tcase_add_test(tcase, nothing_is_left_where_nothing_was_entrusted);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("deputy", fill);
}
