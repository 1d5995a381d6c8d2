/* test_clock.c: a wait is told when it has lasted for a time, and then each time after twice as long. */
#include "unit.h"

#include "base/clock.h"

START_TEST(the_interval_doubles)
{
    struct repeat repeat = {0};
    int told[8] = {0}, count = 0;
    for (int waited = 0; waited <= 1000; waited += 10)
        if (repeat_tell(&repeat, 60, waited))
            told[count++] = waited;
    ck_assert_int_eq(count, 5);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(told[i], 60 << i);
    ck_assert_int_eq(repeat_due_us(&repeat, 60), 1920);
}
END_TEST

/* From when it was told, and not from when it was due. */
START_TEST(one_that_is_late_is_not_made_up_for)
{
    struct repeat repeat = {0};
    ck_assert_int_eq(repeat_due_us(&repeat, 60), 60);
    ck_assert(repeat_tell(&repeat, 60, 500));
    ck_assert(!repeat_tell(&repeat, 60, 999));
    ck_assert(repeat_tell(&repeat, 60, 1000));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("clock");
    tcase_add_test(tcase, the_interval_doubles);
    tcase_add_test(tcase, one_that_is_late_is_not_made_up_for);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("clock", fill);
}
