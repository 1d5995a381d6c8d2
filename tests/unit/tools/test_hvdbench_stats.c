/* test_hvdbench_stats.c: medians and percentiles are as defined. */
#include "unit.h"

#include "tools/hvdbench/stats.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void expect(double *samples, int count, double median, double p99)
{
    struct stats found = stats_of(samples, count);
    ck_assert_double_eq(found.median, median);
    ck_assert_double_eq(found.p99, p99);
    ck_assert_double_eq(found.least, samples[0]);
    ck_assert_double_eq(found.most, samples[count - 1]);
}

START_TEST(one_is_all_there_is)
{
    double samples[] = {7};
    expect(samples, 1, 7, 7);
}
END_TEST

START_TEST(the_median_is_in_the_middle)
{
    double odd[] = {9, 1, 5};
    double even[] = {4, 1, 100, 2};
    double equal[] = {3, 3, 3, 3, 3};
    expect(odd, COUNT(odd), 5, 9);
    expect(even, COUNT(even), 3, 100);
    expect(equal, COUNT(equal), 3, 3);
}
END_TEST

/* The samples from [count] down to 1. */
START_TEST(one_in_a_hundred_is_above_the_99th_percentile)
{
    static const struct {
        int count;
        double median, p99;
    } cases[] = {{99, 50, 99}, {100, 50.5, 99}, {101, 51, 100}, {200, 100.5, 198}, {1000, 500.5, 990}};
    double samples[1000];
    int count = cases[_i].count;
    for (int i = 0; i < count; i++)
        samples[i] = count - i;
    expect(samples, count, cases[_i].median, cases[_i].p99);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("stats");
    tcase_add_test(tcase, one_is_all_there_is);
    tcase_add_test(tcase, the_median_is_in_the_middle);
    tcase_add_loop_test(tcase, one_in_a_hundred_is_above_the_99th_percentile, 0, 5);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdbench_stats", fill);
}
