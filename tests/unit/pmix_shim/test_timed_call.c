/* test_timed_call.c: a call that blocks is left behind in time, and what it used is freed when it returns. */
#include "config.h"
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "pmix_shim/timed_call.h"

static int pipes[2];
static _Atomic int returned, discarded;

static void wait_for_pipe(void *arg)
{
    char byte = 0;
    ck_assert_int_eq(read(pipes[0], &byte, 1), 1);
    *(int *)arg = 7;
    atomic_fetch_add(&returned, 1);
}

static void discard(void *arg)
{
    ck_assert_int_eq(*(int *)arg, 7);
    atomic_fetch_add(&discarded, 1);
}

START_TEST(what_returns_belongs_to_the_caller)
{
    int result = 0;
    const struct timed_call call = {wait_for_pipe, discard, &result};
    ck_assert_int_eq(pipe(pipes), 0);
    ck_assert_int_eq(write(pipes[1], "x", 1), 1);
    ck_assert_int_eq(timed_call(&call, clock_us() + 20000000), HVD_OK);
    ck_assert_int_eq(result, 7);
    ck_assert_int_eq(atomic_load(&discarded), 0);
}
END_TEST

START_TEST(what_blocks_is_left_behind)
{
    static int result;
    const struct timed_call call = {wait_for_pipe, discard, &result};
    ck_assert_int_eq(pipe(pipes), 0);
    int64_t begun_us = clock_us();
    ck_assert_int_eq(timed_call(&call, begun_us + 50000), HVD_ERR_TIMEOUT);
    ck_assert_int_ge(clock_us() - begun_us, 50000);
    ck_assert_int_eq(atomic_load(&returned), 0);
    ck_assert_int_eq(write(pipes[1], "x", 1), 1);
    for (int i = 0; i < 2000 && atomic_load(&discarded) == 0; i++)
        poll(NULL, 0, 10);
    ck_assert_int_eq(atomic_load(&discarded), 1);
}
END_TEST

START_TEST(a_caller_makes_many_calls_until_one_blocks)
{
    static int result;
    struct timed_caller *caller = NULL;
    const struct timed_call call = {wait_for_pipe, discard, &result};
    ck_assert_int_eq(pipe(pipes), 0);
    ck_assert_int_eq(timed_caller_open(&caller), HVD_OK);
    for (int i = 0; i < 100; i++) {
        result = 0;
        ck_assert_int_eq(write(pipes[1], "x", 1), 1);
        ck_assert_int_eq(timed_caller_call(&caller, &call, clock_us() + 20000000), HVD_OK);
        ck_assert_int_eq(result, 7);
    }
    ck_assert_int_eq(timed_caller_call(&caller, &call, clock_us() + 20000), HVD_ERR_TIMEOUT);
    ck_assert_ptr_null(caller);
    timed_caller_close(caller);
    ck_assert_int_eq(write(pipes[1], "x", 1), 1);
    for (int i = 0; i < 2000 && atomic_load(&discarded) == 0; i++)
        poll(NULL, 0, 10);
    ck_assert_int_eq(atomic_load(&discarded), 1);
}
END_TEST

static void read_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
}

/* Signals of the program are for the program's threads. */
START_TEST(it_takes_no_signals)
{
    sigset_t inside, outside;
    const struct timed_call call = {read_mask, discard, &inside};
    ck_assert_int_eq(timed_call(&call, clock_us() + 20000000), HVD_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &outside);
    ck_assert_int_eq(sigismember(&inside, SIGTERM), 1);
    ck_assert_int_eq(sigismember(&outside, SIGTERM), 0);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("calls");
    tcase_add_test(tcase, what_returns_belongs_to_the_caller);
    tcase_add_test(tcase, what_blocks_is_left_behind);
    tcase_add_test(tcase, a_caller_makes_many_calls_until_one_blocks);
    tcase_add_test(tcase, it_takes_no_signals);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("timed_call", fill);
}
