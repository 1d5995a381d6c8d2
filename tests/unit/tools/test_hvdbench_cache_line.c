/* test_hvdbench_cache_line.c: the time of a cache line between two cores is measured, and in bounded time. */
#include "config.h"

#include "unit.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "tools/hvdbench/cache_line_latency.h"

#define BOUND_US 5000000 /* it takes a fifth of a second, but a busy machine may add much to that */

/* Find two cores that this process may use. False if there is only one. */
static bool find_two(int *one, int *other)
{
    cpu_set_t cpus;
    *one = *other = -1;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE && *other < 0; cpu++)
        if (CPU_ISSET(cpu, &cpus))
            *(*one < 0 ? one : other) = cpu;
    return *other >= 0;
}

/* On a machine with other load the result may always be NAN. */
START_TEST(a_line_goes_there_and_back)
{
    int one, other;
    cpu_set_t before, after;
    if (!find_two(&one, &other))
        return;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
    int64_t begin_us = clock_us();
    double ns = cache_line_round_trip_ns(one, other);
    ck_assert_int_lt(clock_us() - begin_us, BOUND_US);
    if (!isnan(ns)) {
        ck_assert_double_gt(ns, 1); /* no machine is that fast */
        ck_assert_double_lt(ns, 1e6);
    }
    ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
    ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

START_TEST(where_there_is_no_other_core_there_is_no_trip)
{
    int one, other;
    find_two(&one, &other);
    int64_t begin_us = clock_us();
    ck_assert(isnan(cache_line_round_trip_ns(one, one)));
    ck_assert(isnan(cache_line_round_trip_ns(-1, one)));
    ck_assert(isnan(cache_line_round_trip_ns(one, -1)));
    ck_assert(isnan(cache_line_round_trip_ns(one, CPU_SETSIZE)));
    ck_assert(isnan(
        cache_line_round_trip_ns(one, CPU_SETSIZE - 1))); /* no machine has so many cores: nothing answers */
    ck_assert(isnan(cache_line_round_trip_ns(CPU_SETSIZE - 1, one)));
    ck_assert_int_lt(clock_us() - begin_us, BOUND_US);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("line");
    tcase_add_test(tcase, a_line_goes_there_and_back);
    tcase_add_test(tcase, where_there_is_no_other_core_there_is_no_trip);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdbench_cache_line", fill);
}
