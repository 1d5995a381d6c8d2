/* test_hvdrun_cooldown.c: a host is left out for a time that grows with its failures, and returns. */
#include "unit.h"

#include <string.h>

#include "tools/hvdrun/cooldown.h"

#define SECOND INT64_C(1000000)

START_TEST(the_time_doubles_up_to_the_longest)
{
    static const int64_t times[] = {10 * SECOND, 20 * SECOND, 40 * SECOND, 60 * SECOND, 60 * SECOND};
    const struct cooldown_range range = {10 * SECOND, 60 * SECOND};
    struct cooldown cooldown = {0};
    int64_t now_us = 5;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        cooldown_begin(&cooldown, &range, now_us);
        ck_assert_int_eq(cooldown.until_us, now_us + times[i]);
        now_us += times[i];
        ck_assert(!cooldown_ends(&cooldown, now_us - 1));
        ck_assert(cooldown_ends(&cooldown, now_us));
        ck_assert(!cooldown_ends(&cooldown, now_us));
    }
}
END_TEST

START_TEST(failures_while_it_is_left_out_are_one)
{
    const struct cooldown_range range = {10 * SECOND, 60 * SECOND};
    struct cooldown cooldown = {0};
    cooldown_begin(&cooldown, &range, 1);
    cooldown_begin(&cooldown, &range, 2);
    ck_assert_int_eq(cooldown.until_us, 1 + 10 * SECOND);
    ck_assert_int_eq(cooldown.failures, 1);
}
END_TEST

START_TEST(without_a_range_no_host_is_left_out)
{
    const struct cooldown_range range = {0, 0};
    struct cooldown cooldown = {0};
    cooldown_begin(&cooldown, &range, 1);
    ck_assert_int_eq(cooldown.until_us, 0);
    ck_assert(!cooldown_ends(&cooldown, 2));
}
END_TEST

START_TEST(a_range_is_two_times)
{
    static const char *const bads[] = {"",
                                       "10s",
                                       "10s:",
                                       ":10s",
                                       "10s:5s",
                                       "0s:10s",
                                       "5:10s",
                                       "5s:10",
                                       "5s:25h",
                                       "5s:10s:15s",
                                       "-1s:5s",
                                       "5s 10s",
                                       "5s:99999999999999999999999999999999999s"};
    struct cooldown_range range = {1, 2};
    struct hvd_error err;
    for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
        ck_assert_int_eq(cooldown_parse(bads[i], "--host-cooldown", &range, &err), HVD_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "such as 10s:5min"));
        ck_assert_int_eq(range.low_us, 1);
    }
    ck_assert_int_eq(cooldown_parse("500ms:2min", "--host-cooldown", &range, &err), HVD_OK);
    ck_assert_int_eq(range.low_us, SECOND / 2);
    ck_assert_int_eq(range.high_us, 120 * SECOND);
    ck_assert_int_eq(cooldown_parse("5s:5s", "--host-cooldown", &range, &err), HVD_OK);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("cooldown");
    tcase_add_test(tcase, the_time_doubles_up_to_the_longest);
    tcase_add_test(tcase, failures_while_it_is_left_out_are_one);
    tcase_add_test(tcase, without_a_range_no_host_is_left_out);
    tcase_add_test(tcase, a_range_is_two_times);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_cooldown", fill);
}
