/* test_stop.c: whether this process was asked to stop, by a call or by a signal. */
#include "unit.h"

#include <signal.h>
#include <string.h>

#include "trace/stop.h"

static volatile sig_atomic_t heard;

static void hear(int number)
{
    heard = number;
}

static void hear_more(int number, siginfo_t *info, void *context)
{
    (void)context;
    heard = info->si_signo == number ? number * 100 : -1;
}

static void (*handler_of(int number))(int)
{
    struct sigaction now;
    ck_assert_int_eq(sigaction(number, NULL, &now), 0);
    return now.sa_handler;
}

/* Check has handlers of its own. */
static void setup(void)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
}

START_TEST(a_call_asks)
{
    ck_assert(!stop_requested());
    stop_request();
    ck_assert(stop_requested());
}
END_TEST

START_TEST(a_signal_asks_and_does_not_end_the_process)
{
    ck_assert_int_eq(stop_watch(SIGTERM, NULL), HVD_OK);
    ck_assert(!stop_requested());
    raise(SIGTERM);
    ck_assert(stop_requested());
    stop_unwatch();
    ck_assert(handler_of(SIGTERM) == SIG_DFL);
}
END_TEST

START_TEST(the_handler_that_was_there_is_called)
{
    struct sigaction action = {.sa_sigaction = hear_more, .sa_flags = SA_SIGINFO};
    if (_i == 0)
        signal(SIGUSR1, hear);
    else
        sigaction(SIGUSR1, &action, NULL);
    ck_assert_int_eq(stop_watch(SIGUSR1, NULL), HVD_OK);
    raise(SIGUSR1);
    ck_assert(stop_requested());
    ck_assert_int_eq(heard, _i == 0 ? SIGUSR1 : SIGUSR1 * 100);
    stop_unwatch();
    ck_assert(handler_of(SIGUSR1) == (_i == 0 ? hear : (void (*)(int))(void *)hear_more));
}
END_TEST

START_TEST(one_signal_is_watched_at_a_time)
{
    struct hvd_error err = {""};
    ck_assert_int_eq(stop_watch(SIGUSR1, NULL), HVD_OK);
    ck_assert_int_eq(stop_watch(SIGTERM, &err), HVD_ERR_STATE);
    ck_assert_msg(strstr(err.text, "already asks") != NULL, "%s", err.text);
    ck_assert(handler_of(SIGTERM) == SIG_DFL);
    stop_unwatch();
    stop_unwatch();
    ck_assert_int_eq(stop_watch(SIGTERM, NULL), HVD_OK);
    stop_unwatch();
}
END_TEST

START_TEST(a_request_is_forgotten)
{
    stop_request();
    stop_forget();
    ck_assert(!stop_requested());
    ck_assert_int_eq(stop_watch(SIGTERM, NULL), HVD_OK);
    raise(SIGTERM);
    stop_unwatch();
    ck_assert(stop_requested());
    stop_forget();
    ck_assert(!stop_requested());
}
END_TEST

START_TEST(no_signal_is_refused)
{
    ck_assert_int_ne(stop_watch(SIGKILL, NULL), HVD_OK);
    ck_assert_int_ne(stop_watch(9999, NULL), HVD_OK);
}
END_TEST

static struct sigaction below;

static void on_top(int number, siginfo_t *info, void *context)
{
    heard++;
    below.sa_sigaction(number, info, context);
}

/* A handler that came later and calls ours stays as it is, and ours then asks nothing and calls nothing. */
START_TEST(a_later_handler_stays)
{
    struct sigaction action = {.sa_sigaction = on_top, .sa_flags = SA_SIGINFO};
    ck_assert_int_eq(stop_watch(SIGUSR1, NULL), HVD_OK);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, &below), 0);
    stop_unwatch();
    raise(SIGUSR1);
    ck_assert_int_eq(heard, 1);
    ck_assert(!stop_requested());
    ck_assert_int_eq(stop_watch(SIGUSR1, NULL), HVD_OK);
    raise(SIGUSR1);
    ck_assert_int_eq(heard, 2);
    ck_assert(stop_requested());
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("stop");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, a_call_asks);
    tcase_add_test(tcase, a_signal_asks_and_does_not_end_the_process);
    tcase_add_loop_test(tcase, the_handler_that_was_there_is_called, 0, 2);
    tcase_add_test(tcase, one_signal_is_watched_at_a_time);
    tcase_add_test(tcase, a_request_is_forgotten);
    tcase_add_test(tcase, no_signal_is_refused);
    tcase_add_test(tcase, a_later_handler_stays);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("stop", fill);
}
