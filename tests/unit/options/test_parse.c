/* test_parse.c: numbers, sizes and times from outside. */
#include "unit.h"

#include "options/parse.h"

static const struct {
    int (*parse)(const char *text, int64_t *valuep, const char **whyp);
    const char *text;
    int64_t value; /* -1: refused */
    const char *why;
} cases[] = {
    {parse_count, "0", 0, NULL},
    {parse_count, "9223372036854775807", INT64_MAX, NULL},
    {parse_count, "9223372036854775808", -1, "is too large"},
    {parse_count, "99999999999999999999", -1, "is too large"},
    {parse_count, "12x", -1, "is not a whole number"},
    {parse_count, "1.5", -1, "is not a whole number"},
    {parse_count, "", -1, "is empty"},
    {parse_count, "-1", -1, "does not begin with a digit"},
    {parse_count, "+1", -1, "does not begin with a digit"},
    {parse_count, " 1", -1, "does not begin with a digit"},
    {parse_size, "64M", INT64_C(64) << 20, NULL},
    {parse_size, "1K", 1024, NULL},
    {parse_size, "0", 0, NULL},
    {parse_size, "8388607T", INT64_C(8388607) << 40, NULL},
    {parse_size, "8388608T", -1, "is too large"},
    {parse_size, "20000000T", -1, "is too large"},
    {parse_size, "64Q", -1, "has an unknown unit"},
    {parse_size, "64m", -1, "has an unknown unit"},
    {parse_size, "64 M", -1, "has an unknown unit"},
    {parse_size, "M", -1, "does not begin with a digit"},
    {parse_time, "5s", 5000000, NULL},
    {parse_time, "10us", 10, NULL},
    {parse_time, "2ms", 2000, NULL},
    {parse_time, "3min", 180000000, NULL},
    {parse_time, "1h", INT64_C(3600000000), NULL},
    {parse_time, "0", 0, NULL},
    {parse_time, "5", -1, "has no unit"},
    {parse_time, "3000000000h", -1, "is too large"},
};

START_TEST(parses_whole_text_or_leaves_value)
{
    int64_t value = 77;
    const char *why = NULL;
    int rc = cases[_i].parse(cases[_i].text, &value, &why);
    if (cases[_i].value >= 0) {
        ck_assert_int_eq(rc, 0);
        ck_assert_int_eq(value, cases[_i].value);
    } else {
        ck_assert_int_eq(rc, -1);
        ck_assert_int_eq(value, 77);
        ck_assert_str_eq(why, cases[_i].why);
    }
}
END_TEST

START_TEST(what_is_no_count_is_the_other_number)
{
    ck_assert_int_eq(parse_count_or("12", -1), 12);
    ck_assert_int_eq(parse_count_or("12x", -1), -1);
    ck_assert_int_eq(parse_count_or("", 7), 7);
    ck_assert_int_eq(parse_count_or(NULL, INT64_MAX), INT64_MAX);
}
END_TEST

START_TEST(formats_as_typed)
{
    char text[32];
    format_size(INT64_C(64) << 20, text, sizeof(text));
    ck_assert_str_eq(text, "64M");
    format_size(1025, text, sizeof(text));
    ck_assert_str_eq(text, "1025");
    format_size(0, text, sizeof(text));
    ck_assert_str_eq(text, "0");
    format_time(60000000, text, sizeof(text));
    ck_assert_str_eq(text, "1min");
    format_time(1500, text, sizeof(text));
    ck_assert_str_eq(text, "1500us");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("parse");
    unit_add_rounds(tcase, parses_whole_text_or_leaves_value, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tcase, what_is_no_count_is_the_other_number);
    tcase_add_test(tcase, formats_as_typed);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("parse", fill);
}
