/* test_forked_call.c: functions that return, crash, or never return, called in a child. */
#include "topo/forked_call.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "unit.h"

static void return_at_once(void *arg)
{
    *(int *)arg = 5; /* of the child's copy */
}

static void crash(void *arg)
{
    (void)arg;
    process_signal_self(SIGSEGV);
}

static void never_return(void *arg)
{
    (void)arg;
    for (;;)
        poll(NULL, 0, 1000);
}

static void leave(void *arg)
{
    (void)arg;
    _exit(0);
}

static void run_all(void)
{
    int number = 3;
    int64_t far_us = clock_us() + INT64_C(60000000);
    ck_assert_int_eq(forked_call_run(return_at_once, &number, far_us), 1);
    ck_assert_int_eq(number, 3);
    ck_assert_int_eq(forked_call_run(crash, NULL, far_us), 0);
    ck_assert_int_eq(forked_call_run(leave, NULL, far_us), 0);
    ck_assert_int_eq(forked_call_run(never_return, NULL, clock_us() + 50000), 0);
    ck_assert_int_lt(clock_us(), far_us);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

START_TEST(only_what_returns_has_worked)
{
    run_all();
}
END_TEST

/* Some programs let the kernel reap their children. */
START_TEST(children_may_be_ignored)
{
    signal(SIGCHLD, SIG_IGN);
    run_all();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("forked_call");
    tcase_add_test(tcase, only_what_returns_has_worked);
    tcase_add_test(tcase, children_may_be_ignored);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("forked_call", fill);
}
