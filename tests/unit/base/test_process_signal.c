/* test_process_signal.c: signals reach one process or group, and never all that a bad number would stand for.
 */
#include "config.h"
#include "unit.h"

#include <sys/wait.h>

#include "base/process_signal.h"
#include "base/process_stat.h"

/* Signal 0 only asks whether a process is there, so a mistake here harms nobody. */
#define ASK 0

START_TEST(numbers_of_no_single_process_are_refused)
{
    static const pid_t refused[] = {1, 0, -1, -2};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        errno = 0;
        ck_assert_int_eq(process_signal(refused[i], ASK), -1);
        ck_assert_int_eq(errno, EINVAL);
        errno = 0;
        ck_assert_int_eq(process_signal_group(refused[i], ASK), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
}
END_TEST

START_TEST(a_process_and_a_group_are_reached)
{
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        for (;;)
            pause();
    setpgid(pid, pid);
    ck_assert_int_eq(process_signal(pid, ASK), 0);
    ck_assert_int_eq(process_signal_group(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert_int_eq(process_signal(pid, ASK), -1);
    ck_assert_int_eq(errno, ESRCH);
}
END_TEST

/* As if the number were another process's now: it began at another time. */
START_TEST(only_the_process_that_was_meant_is_reached)
{
    struct process_stat stat;
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        for (;;)
            pause();
    ck_assert(process_stat_read(pid, &stat));
    ck_assert_int_eq(process_stat_signal(pid, stat.start + 1, SIGTERM), -1);
    ck_assert_int_eq(errno, ESRCH);
    ck_assert_int_eq(process_stat_signal(pid, stat.start, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert_int_eq(process_stat_signal(pid, stat.start, SIGKILL), -1);
    ck_assert_int_eq(errno, ESRCH);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("process_signal");
    tcase_add_test(tcase, numbers_of_no_single_process_are_refused);
    tcase_add_test(tcase, a_process_and_a_group_are_reached);
    tcase_add_test(tcase, only_the_process_that_was_meant_is_reached);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("process_signal", fill);
}
