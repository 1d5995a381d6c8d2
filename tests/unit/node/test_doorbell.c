/* test_doorbell.c: who knocks at a doorbell wakes who sleeps behind it, however many knock, and nobody else.
 */
#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/doorbell.h"

#define WAIT_MS 20000 /* nobody sleeps so long */

static int epoll_fds[2];
static struct doorbell doorbells[2];

static void open_doorbells(void)
{
    for (int i = 0; i < 2; i++) {
        epoll_fds[i] = epoll_create1(EPOLL_CLOEXEC);
        ck_assert_int_eq(doorbell_open(&doorbells[i], epoll_fds[i], NULL), HVD_OK);
    }
}

static void close_doorbells(void)
{
    for (int i = 0; i < 2; i++) {
        doorbell_close(&doorbells[i]);
        close(epoll_fds[i]);
    }
}

static bool is_woken(int i, int timeout_ms)
{
    struct epoll_event event;
    return epoll_wait(epoll_fds[i], &event, 1, timeout_ms) == 1;
}

START_TEST(a_knock_wakes_one)
{
    ck_assert(!is_woken(0, 0) && !is_woken(1, 0));
    for (int i = 0; i < 5; i++) {
        doorbell_ring(&doorbells[0], doorbells[1].name);
        ck_assert(is_woken(1, WAIT_MS));
        ck_assert(!is_woken(0, 0));
    }
}
END_TEST

/* More than are kept: they do not hold up who knocks, nor are new ones lost once they were cleared. */
START_TEST(many_may_knock)
{
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++)
            doorbell_ring(&doorbells[0], doorbells[1].name);
        ck_assert(is_woken(1, WAIT_MS));
        while (is_woken(1, 0))
            continue;
        doorbell_clear(&doorbells[1]);
        ck_assert(!is_woken(1, 0));
        doorbell_ring(&doorbells[0], doorbells[1].name);
        ck_assert(is_woken(1, WAIT_MS));
    }
}
END_TEST

START_TEST(a_knock_at_no_door_is_nothing)
{
    unsigned char name[DOORBELL_NAME_BYTES];
    memset(name, 0xff, sizeof(name));
    doorbell_ring(&doorbells[0], name);
    memcpy(name, doorbells[1].name, sizeof(name));
    doorbell_close(&doorbells[1]);
    doorbell_ring(&doorbells[0], name);
    ck_assert(!is_woken(0, 0));
}
END_TEST

/* A child's copy of the descriptor does not take the knocks, and a closed one stays closed. */
START_TEST(a_child_closes_its_copy)
{
    int status = -1;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int fd = doorbells[1].fd;
        doorbell_close(&doorbells[1]);
        doorbell_close(&doorbells[1]);
        _exit(fcntl(fd, F_GETFD) < 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    doorbell_ring(&doorbells[0], doorbells[1].name);
    ck_assert(is_woken(1, WAIT_MS));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("doorbell");
    tcase_add_checked_fixture(tcase, open_doorbells, close_doorbells);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_knock_wakes_one);
    tcase_add_test(tcase, many_may_knock);
    tcase_add_test(tcase, a_knock_at_no_door_is_nothing);
    tcase_add_test(tcase, a_child_closes_its_copy);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("doorbell", fill);
}
