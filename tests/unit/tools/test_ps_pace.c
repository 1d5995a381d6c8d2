/* test_ps_pace.c: how fast a rank works, and what with, from a made-up record. */
#include "unit.h"

#include <math.h>

#include "tools/hvdinfo/ps/pace.h"

#define NOW_US INT64_C(900000000)
#define MS     INT64_C(1000)

static struct flight_operation operations[FLIGHT_SLOTS];
static struct rank rank;

static void setup(void)
{
    rank = (struct rank){.operations = operations, .read_us = NOW_US};
}

/* Submitted [ago_us] ago, then decided, and then done, after so long; 0: not yet. */
static void add_op(int64_t ago_us, int64_t decided_us, int64_t done_us)
{
    struct flight_operation *operation = &operations[rank.operation_count++];
    *operation = (struct flight_operation){.submitted_us = NOW_US - ago_us, .bytes = 1000};
    operation->step = done_us > 0 ? TRACE_DONE : decided_us > 0 ? TRACE_DECIDED : TRACE_SUBMITTED;
    operation->after_us[TRACE_DECIDED - 1] = decided_us > 0 ? (uint32_t)decided_us + 1 : 0;
    operation->after_us[TRACE_DONE - 1] = done_us > 0 ? (uint32_t)done_us + 1 : 0;
}

static void expect(double operations_per_s, double waiting, double moving)
{
    struct pace pace = pace_of(&rank, NULL);
    ck_assert_msg(fabs(pace.operations - operations_per_s) < 0.01, "%f a second", pace.operations);
    ck_assert_msg(fabs(pace.waiting - waiting) < 0.001, "%f waiting", pace.waiting);
    ck_assert_msg(fabs(pace.moving - moving) < 0.001, "%f moving", pace.moving);
}

START_TEST(shares_are_of_the_time_since_the_oldest)
{
    add_op(60000 * MS, 10 * MS, 20 * MS); /* too long ago */
    for (int i = 0; i < 20; i++)
        add_op((2000 - 100 * i) * MS, 20 * MS, 50 * MS);
    expect(10, 0.2, 0.3);
    ck_assert(fabs(pace_of(&rank, NULL).bytes - 10000) < 1);
}
END_TEST

START_TEST(time_counts_once_whatever_is_in_flight)
{
    for (int i = 0; i < 10; i++) {
        add_op((1000 - 100 * i) * MS, 20 * MS, 50 * MS);
        add_op((1000 - 100 * i) * MS, 30 * MS, 50 * MS);
    }
    expect(20, 0.2, 0.3);
}
END_TEST

START_TEST(what_is_not_done_lasts_until_now)
{
    for (int i = 0; i < 9; i++)
        add_op(1000 * MS, 1, 1);
    add_op(400 * MS, 0, 0);
    expect(10, 0.4, 0);
}
END_TEST

START_TEST(few_operations_say_nothing)
{
    add_op(400 * MS, 0, 0);
    expect(-1, -1, -1);
    add_op(300 * MS, 0, 0);
    expect(5, -1, -1);
}
END_TEST

/* A step of 40 tensors and a barrier that comes twice, each half a second. */
START_TEST(steps_are_told_by_names_that_come_again)
{
    static struct flight_sums sums;
    flight_sums_begin(&sums, NOW_US - 8000 * MS);
    for (int i = 0; i < FLIGHT_SLOTS; i++) {
        add_op((FLIGHT_SLOTS - i) * MS, 1, 1);
        snprintf(operations[i].name, sizeof(operations[i].name), "%d", i % 21 == 0 ? -1 : i % 42);
    }
    for (int i = 0; i < 16 * 42; i++)
        flight_count_decided(&sums, i % 2 == 0);
    flight_count_batch(&sums, BACKEND_SHM, 20, 8000, NOW_US - 8000 * MS);
    struct pace pace = pace_of(&rank, &sums);
    ck_assert(fabs(pace.steps - 2) < 0.01 && fabs(pace.long_steps - 2) < 0.01);
    ck_assert(fabs(pace.operations - 84) < 0.01 && fabs(pace.cached - 0.5) < 0.01);
    ck_assert(fabs(pace.batch_tensors - 20) < 0.01 && fabs(pace.backend_bytes[BACKEND_SHM] - 1000) < 1);
    for (int i = 0; i < FLIGHT_SLOTS; i++)
        snprintf(operations[i].name, sizeof(operations[i].name), "%d", i);
    ck_assert(pace_of(&rank, &sums).steps < 0);
    static struct flight_sums messages; /* which nobody decides */
    flight_sums_begin(&messages, NOW_US - 8000 * MS);
    ck_assert(fabs(pace_of(&rank, &messages).operations - 1000) < 1);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("pace");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, shares_are_of_the_time_since_the_oldest);
    tcase_add_test(tcase, time_counts_once_whatever_is_in_flight);
    tcase_add_test(tcase, what_is_not_done_lasts_until_now);
    tcase_add_test(tcase, few_operations_say_nothing);
    tcase_add_test(tcase, steps_are_told_by_names_that_come_again);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("ps_pace", fill);
}
