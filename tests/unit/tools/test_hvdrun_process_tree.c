/* test_hvdrun_process_tree.c: all descendants are found and ended, daemons in other sessions too. */
#include "unit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/hvdrun/process_tree.h"

#define SECONDS INT64_C(1000000)

/* Report that this process is running, and stay. If the test fails, nobody waits for the end of its output.
 */
static void stay(int ready_fd)
{
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    if (write(ready_fd, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

/* Start a child, its child, and a daemon of that one, in its own session and with a parent that has exited.
 */
static void grow_family(int ready_fd)
{
    if (fork() != 0)
        return;
    if (fork() != 0)
        stay(ready_fd);
    if (fork() != 0)
        stay(ready_fd);
    setsid();
    pid_t parent = getpid();
    if (fork() != 0)
        _exit(0);
    while (getppid() == parent) /* it has to be counted as ended each time */
        sched_yield();
    stay(ready_fd);
}

static void make_family(void)
{
    int fds[2];
    char ready[3];
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    ck_assert_int_eq(pipe(fds), 0);
    grow_family(fds[1]);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(read(fds[0], &ready[i], 1), 1);
    close(fds[0]);
    close(fds[1]);
}

START_TEST(all_generations_are_found)
{
    make_family();
    ck_assert_int_ge(process_tree_signal(0, NULL), 3);
    ck_assert_int_eq(process_tree_kill(clock_us() + 10 * SECONDS), 0);
    ck_assert_int_eq(process_tree_signal(0, NULL), 0);
}
END_TEST

START_TEST(nobody_is_told_twice)
{
    struct signalled_processes told = {0};
    make_family();
    int count = process_tree_signal(SIGSTOP, &told);
    ck_assert_int_ge(count, 3);
    ck_assert_uint_eq(told.count, (size_t)count);
    ck_assert_int_eq(process_tree_signal(SIGKILL, &told), count);
    ck_assert_int_eq(process_tree_signal(0, NULL), count); /* all are still there: the SIGKILL ended none */
    ck_assert_int_eq(process_tree_kill(clock_us() + 10 * SECONDS), 0);
    free(told.pids);
}
END_TEST

START_TEST(nothing_is_left_to_wait_for)
{
    make_family();
    ck_assert_int_eq(process_tree_kill(clock_us() + 10 * SECONDS), 0);
    ck_assert_int_eq(waitpid(-1, NULL, 0), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

START_TEST(without_children_there_is_nothing_to_do)
{
    ck_assert_int_eq(process_tree_signal(SIGKILL, NULL), 0);
    ck_assert_int_eq(process_tree_kill(clock_us()), 0);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tree");
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, all_generations_are_found);
    tcase_add_test(tcase, nobody_is_told_twice);
    tcase_add_test(tcase, nothing_is_left_to_wait_for);
    tcase_add_test(tcase, without_children_there_is_nothing_to_do);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_process_tree", fill);
}
