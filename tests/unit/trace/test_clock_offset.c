/* test_clock_offset.c: how far the clock of another rank is from ours. */
#include "unit.h"

#include <stdlib.h>

#include "trace/clock_offset.h"

static const struct {
    struct clock_sample samples[3];
    int count, rc;
    int64_t offset_us, error_us;
} cases[] = {
    /* asked, other, answered */
    {{{100, 1110, 120}}, 1, 0, 1000, 10},
    {{{100, 1110, 101}}, 1, 0, 1009, 1}, /* 1009 to 1010: the error covers both */
    {{{100, 110, 100}}, 1, 0, 10, 0},
    {{{100, 50, 120}}, 1, 0, -60, 10},
    {{{100, 1110, 120}, {200, 1208, 220}}, 2, 0, 999, 9},  /* 990..1010 and 988..1008 */
    {{{100, 1110, 120}, {200, 1210, 202}}, 2, 0, 1009, 1}, /* the second is inside the first */
    {{{100, 1110, 120}, {200, 5000, 204}}, 2, 0, 4798, 2}, /* nothing in common: the narrowest */
    {{{100, 1110, 90}, {200, 1210, 202}}, 2, 0, 1009, 1},  /* the first makes no sense */
    {{{100, 1110, 90}}, 1, -1, 4711, 4711},
    {{{0, 0, 0}}, 0, -1, 4711, 4711},
    {{{-2, INT64_MAX, -1}}, 1, -1, 4711, 4711}, /* too far to be counted */
    {{{0, INT64_MIN, 1}}, 1, -1, 4711, 4711},
};

START_TEST(the_narrowest_window_counts)
{
    int64_t offset_us = 4711;
    int64_t error_us = 4711;
    ck_assert_int_eq(clock_offset_estimate(cases[_i].samples, cases[_i].count, &offset_us, &error_us),
                     cases[_i].rc);
    ck_assert_int_eq(offset_us, cases[_i].offset_us);
    ck_assert_int_eq(error_us, cases[_i].error_us);
}
END_TEST

/* Whatever the delays, the true offset lies within the bound. */
START_TEST(the_bound_holds)
{
    unsigned seed = (unsigned)_i;
    int64_t truth_us = (int64_t)(rand_r(&seed) % 2000001) - 1000000;
    struct clock_sample samples[8];
    for (int i = 0; i < 8; i++) {
        int64_t sent_us = 1000000 + i * 1000;
        int64_t read_us = sent_us + rand_r(&seed) % 300;
        samples[i] = (struct clock_sample){sent_us, read_us + truth_us, read_us + rand_r(&seed) % 300};
    }
    int64_t offset_us = 0;
    int64_t error_us = 0;
    ck_assert_int_eq(clock_offset_estimate(samples, 8, &offset_us, &error_us), 0);
    ck_assert_int_le(llabs(offset_us - truth_us), error_us);
    ck_assert_int_le(error_us, 300);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("clock_offset");
    unit_add_rounds(tcase, the_narrowest_window_counts, 0, sizeof(cases) / sizeof(cases[0]));
    unit_add_rounds(tcase, the_bound_holds, 0, 20);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("clock_offset", fill);
}
