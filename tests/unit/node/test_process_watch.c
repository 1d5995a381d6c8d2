/* test_process_watch.c: the end of processes, each told once, whoever else holds the descriptors that show
 * it. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/process_signal.h"
#include "base/process_stat.h"
#include "node/process_watch.h"

static pid_t sleeper_new(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    while (pid == 0)
        pause();
    return pid;
}

static int next(struct process_watch *watch)
{
    enum process_loss loss;
    int rank = process_watch_next(watch, &loss);
    ck_assert(rank < 0 || loss == PROCESS_ENDED);
    return rank;
}

static void end(pid_t pid)
{
    process_signal(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* Where the kernel has pidfds. */
static bool add(struct process_watch *watch, int rank, pid_t pid)
{
    const struct watched_process process = {
        .rank = rank, .fd = kernel_pidfd_open(pid), .life_fd = -1, .pid = pid};
    if (process.fd < 0)
        return false;
    ck_assert_int_eq(process_watch_add(watch, &process, NULL), HVD_OK);
    return true;
}

START_TEST(each_end_is_told_once)
{
    struct process_watch watch;
    pid_t pids[3];
    process_watch_init(&watch);
    ck_assert_int_eq(next(&watch), -1);
    for (int i = 0; i < 3; i++) {
        pids[i] = sleeper_new();
        if (!add(&watch, 10 + i, pids[i])) {
            end(pids[i]);
            process_watch_fini(&watch);
            return;
        }
    }
    /* holds copies of all descriptors */
    pid_t heir = sleeper_new();
    struct pollfd wait = {.fd = watch.fd, .events = POLLIN};
    ck_assert_int_eq(next(&watch), -1);
    ck_assert_int_eq(poll(&wait, 1, 0), 0);
    end(pids[1]);
    ck_assert_int_eq(poll(&wait, 1, 10000), 1);
    ck_assert_int_eq(next(&watch), 11);
    ck_assert_int_eq(next(&watch), -1);
    ck_assert_int_eq(poll(&wait, 1, 0), 0);
    end(pids[0]);
    end(pids[2]);
    ck_assert_int_eq(next(&watch) + next(&watch), 22);
    ck_assert_int_eq(next(&watch), -1);
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
    const struct watched_process process = {
        .rank = 4, .fd = kernel_pidfd_open(pid), .life_fd = -1, .pid = pid};
    end(pid);
    process_watch_init(&watch);
    if (process.fd < 0)
        return;
    ck_assert_int_eq(process_watch_add(&watch, &process, NULL), HVD_OK);
    ck_assert_int_eq(next(&watch), 4);
    process_watch_fini(&watch);
}
END_TEST

/* A process that holds the write end of its life pipe; *fdp is the read end. If [start] is not NULL, it gets
 * the start of the process. */
static pid_t sleeper_with_life(int *fdp, uint64_t *start)
{
    int ends[2];
    struct process_stat stat;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = sleeper_new();
    close(ends[1]);
    *fdp = ends[0];
    if (start != NULL)
        *start = process_stat_read(pid, &stat) ? stat.start : 0;
    return pid;
}

START_TEST(a_life_pipe_shows_the_end)
{
    struct process_watch watch;
    struct watched_process process = {.rank = 3, .life_fd = -1};
    pid_t pid = sleeper_with_life(&process.fd, NULL);
    struct pollfd wait = {.events = POLLIN};
    process_watch_init(&watch);
    ck_assert_int_eq(process_watch_add(&watch, &process, NULL), HVD_OK);
    ck_assert_int_eq(next(&watch), -1);
    wait.fd = watch.fd;
    end(pid);
    ck_assert_int_eq(poll(&wait, 1, 10000), 1);
    ck_assert_int_eq(next(&watch), 3);
    ck_assert_int_eq(next(&watch), -1);
    process_watch_fini(&watch);
}
END_TEST

/* Where the kernel has pidfds: a process whose life pipe ends while it lives on, and then it ends. */
START_TEST(who_lives_without_its_life_pipe_is_told_before_its_end)
{
    struct process_watch watch;
    enum process_loss loss = PROCESS_ENDED;
    struct watched_process process = {.rank = 6};
    struct pollfd wait = {.events = POLLIN};
    int ends[2];
    pid_t pid = sleeper_new();
    process.pid = pid;
    process.fd = kernel_pidfd_open(pid);
    process_watch_init(&watch);
    if (process.fd < 0) {
        end(pid);
        return;
    }
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    close(ends[1]);
    process.life_fd = ends[0];
    ck_assert_int_eq(process_watch_add(&watch, &process, NULL), HVD_OK);
    wait.fd = watch.fd;
    ck_assert_int_eq(poll(&wait, 1, 10000), 1);
    ck_assert_int_eq(process_watch_next(&watch, &loss), 6);
    ck_assert_int_eq(loss, PROCESS_REPLACED); /* it has mapped no memory of a node */
    ck_assert_int_eq(process_watch_next(&watch, &loss), -1);
    end(pid);
    ck_assert_int_eq(poll(&wait, 1, 10000), 1);
    ck_assert_int_eq(process_watch_next(&watch, &loss), 6);
    ck_assert_int_eq(loss, PROCESS_ENDED);
    process_watch_fini(&watch);
}
END_TEST

/* As children do that are made behind the C library's back. */
static pid_t heir_of(int fd)
{
    pid_t heir = sleeper_new();
    close(fd);
    return heir;
}

START_TEST(proc_shows_the_end_where_another_holds_the_pipe)
{
    struct process_watch watch;
    int ends[2];
    struct process_stat stat;
    struct pollfd wait = {.events = POLLIN};
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = sleeper_new();
    pid_t heir = heir_of(ends[1]);
    if (!process_stat_read(pid, &stat))
        stat.start = 0;
    struct watched_process process = {
        .rank = 7, .fd = ends[0], .life_fd = -1, .pid = pid, .start = stat.start};
    process_watch_init(&watch);
    ck_assert_int_eq(process_watch_add(&watch, &process, NULL), HVD_OK);
    wait.fd = watch.fd;
    process_signal(pid, SIGKILL); /* nobody reaps it yet */
    for (int rank = -1; rank < 0 && stat.start != 0; rank = next(&watch))
        ck_assert_int_eq(poll(&wait, 1, 10000), 1);
    ck_assert_int_eq(next(&watch), -1);
    end(heir);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    process_watch_fini(&watch);
}
END_TEST

START_TEST(a_number_that_is_used_again_is_another_process)
{
    struct process_stat stat;
    pid_t pid = sleeper_new();
    if (process_stat_read(pid, &stat)) {
        ck_assert(!process_has_ended(pid, stat.start));
        ck_assert(process_has_ended(pid, stat.start + 1));
    }
    end(pid);
    ck_assert(!process_stat_read(pid, &stat));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("process_watch");
    tcase_add_test(tcase, each_end_is_told_once);
    tcase_add_test(tcase, who_ended_before_is_told_too);
    tcase_add_test(tcase, a_life_pipe_shows_the_end);
    tcase_add_test(tcase, who_lives_without_its_life_pipe_is_told_before_its_end);
    tcase_add_test(tcase, proc_shows_the_end_where_another_holds_the_pipe);
    tcase_add_test(tcase, a_number_that_is_used_again_is_another_process);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("process_watch", fill);
}
