/* test_doorbell.c: who knocks at a door wakes who sleeps behind it, however many knock, and nobody else. */
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
static struct door doors[2];

static void open_doors(void)
{
    for (int i = 0; i < 2; i++) {
        epoll_fds[i] = epoll_create1(EPOLL_CLOEXEC);
        ck_assert_int_eq(door_open(&doors[i], epoll_fds[i], NULL), HVD_OK);
    }
}

static void close_doors(void)
{
    for (int i = 0; i < 2; i++) {
        door_close(&doors[i]);
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
        door_knock(&doors[0], doors[1].name);
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
            door_knock(&doors[0], doors[1].name);
        ck_assert(is_woken(1, WAIT_MS));
        while (is_woken(1, 0))
            continue;
        door_clear(&doors[1]);
        ck_assert(!is_woken(1, 0));
        door_knock(&doors[0], doors[1].name);
        ck_assert(is_woken(1, WAIT_MS));
    }
}
END_TEST

START_TEST(a_knock_at_no_door_is_nothing)
{
    unsigned char name[DOOR_NAME_BYTES];
    memset(name, 0xff, sizeof(name));
    door_knock(&doors[0], name);
    memcpy(name, doors[1].name, sizeof(name));
    door_close(&doors[1]);
    door_knock(&doors[0], name);
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
        int fd = doors[1].fd;
        door_close(&doors[1]);
        door_close(&doors[1]);
        _exit(fcntl(fd, F_GETFD) < 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    door_knock(&doors[0], doors[1].name);
    ck_assert(is_woken(1, WAIT_MS));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("door");
    tcase_add_checked_fixture(tcase, open_doors, close_doors);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_knock_wakes_one);
    tcase_add_test(tcase, many_may_knock);
    tcase_add_test(tcase, a_knock_at_no_door_is_nothing);
    tcase_add_test(tcase, a_child_closes_its_copy);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("door", fill);
}
