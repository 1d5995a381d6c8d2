/* test_process_watch.c: the end of processes, each told once, whoever else holds their pidfds. */
#include "config.h"
#include "unit.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process_signal.h"
#include "node/process_watch.h"

static pid_t sleeper_new(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    while (pid == 0)
        pause();
    return pid;
}

static void end(pid_t pid)
{
    process_signal(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static void add(struct process_watch *watch, int rank, pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    ck_assert_int_ge(pidfd, 0);
    ck_assert_int_eq(process_watch_add(watch, rank, pidfd, NULL), HVD_OK);
}

START_TEST(each_end_is_told_once)
{
    struct process_watch watch;
    pid_t pids[3];
    process_watch_init(&watch);
    ck_assert_int_eq(process_watch_next(&watch), -1);
    for (int i = 0; i < 3; i++) {
        pids[i] = sleeper_new();
        add(&watch, 10 + i, pids[i]);
    }
    /* holds copies of all descriptors */
    pid_t heir = sleeper_new();
    struct pollfd wait = {.fd = watch.fd, .events = POLLIN};
    ck_assert_int_eq(process_watch_next(&watch), -1);
    ck_assert_int_eq(poll(&wait, 1, 0), 0);
    end(pids[1]);
    ck_assert_int_eq(poll(&wait, 1, 10000), 1);
    ck_assert_int_eq(process_watch_next(&watch), 11);
    ck_assert_int_eq(process_watch_next(&watch), -1);
    ck_assert_int_eq(poll(&wait, 1, 0), 0);
    end(pids[0]);
    end(pids[2]);
    ck_assert_int_eq(process_watch_next(&watch) + process_watch_next(&watch), 22);
    ck_assert_int_eq(process_watch_next(&watch), -1);
    end(heir);
    process_watch_fini(&watch);
    ck_assert_int_eq(watch.fd, -1);
    process_watch_fini(&watch);
}
END_TEST

START_TEST(who_ended_before_is_told_too)
{
    struct process_watch watch;
    pid_t pid = sleeper_new();
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    end(pid);
    process_watch_init(&watch);
    ck_assert_int_eq(process_watch_add(&watch, 4, pidfd, NULL), HVD_OK);
    ck_assert_int_eq(process_watch_next(&watch), 4);
    process_watch_fini(&watch);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("watch");
    tcase_add_test(tcase, each_end_is_told_once);
    tcase_add_test(tcase, who_ended_before_is_told_too);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("watch", fill);
}
