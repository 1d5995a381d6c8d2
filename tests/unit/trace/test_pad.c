/* test_pad.c: text put together in fixed memory. */
#include "unit.h"

#include <string.h>

#include "trace/strbuf.h"

static char bytes[64];

static const char *end(struct pad *pad)
{
    ck_assert_uint_lt(pad->used, sizeof(bytes));
    bytes[pad->used] = 0;
    return bytes;
}

static const struct {
    const char *text, *json, *plain;
} texts[] = {
    {"", "\"\"", ""},
    {"layer3.weight", "\"layer3.weight\"", "layer3.weight"},
    {"a\"b\\c/", "\"a\\\"b\\\\c/\"", "a\"b\\c/"},
    {"a\n\x1b[0m\x7f", "\"a\\u000a\\u001b[0m\\u007f\"", "a\\x0a\\x1b[0m\\x7f"},
    {"gr\xc3\xb6\xc3\x9f", "\"gr\xc3\xb6\xc3\x9f\"", "gr\xc3\xb6\xc3\x9f"},
    {"\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xe2\x82\xac\xf0\x9f\x98\x80\"", "\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"\xe9x", "\"\\u00e9x\"", "\\xe9x"},                              /* Latin-1 */
    {"\xc3", "\"\\u00c3\"", "\\xc3"},                                 /* cut short */
    {"\xe2\x82", "\"\\u00e2\\u0082\"", "\\xe2\\x82"},                 /* the same */
    {"\xc0\xaf", "\"\\u00c0\\u00af\"", "\\xc0\\xaf"},                 /* longer than need be */
    {"\xe0\x80\xaf", "\"\\u00e0\\u0080\\u00af\"", "\\xe0\\x80\\xaf"}, /* the same */
    {"\xed\xa0\x80", "\"\\u00ed\\u00a0\\u0080\"", "\\xed\\xa0\\x80"}, /* half a pair */
    {"\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\"", "\\xf4\\x90\\x80\\x80"}, /* beyond the last */
    {"\xff", "\"\\u00ff\"", "\\xff"},
};

START_TEST(any_bytes_become_json)
{
    struct pad pad = {bytes, 0, sizeof(bytes) - 1};
    pad_json(&pad, texts[_i].text);
    ck_assert_str_eq(end(&pad), texts[_i].json);
}
END_TEST

START_TEST(any_bytes_become_plain)
{
    struct pad pad = {bytes, 0, sizeof(bytes) - 1};
    pad_plain(&pad, texts[_i].text);
    ck_assert_str_eq(end(&pad), texts[_i].plain);
}
END_TEST

static const struct {
    int64_t number;
    const char *text;
} numbers[] = {{0, "0"},
               {7, "7"},
               {-12, "-12"},
               {INT64_MAX, "9223372036854775807"},
               {INT64_MIN, "-9223372036854775808"}};

START_TEST(numbers_are_decimal)
{
    struct pad pad = {bytes, 0, sizeof(bytes) - 1};
    pad_number(&pad, numbers[_i].number);
    ck_assert_str_eq(end(&pad), numbers[_i].text);
}
END_TEST

START_TEST(columns_begin_where_they_should)
{
    struct pad pad = {bytes, 0, sizeof(bytes) - 1};
    pad_text(&pad, "x\n");
    pad_text(&pad, "ab");
    pad_to(&pad, 2, 5);
    pad_text(&pad, "long");
    pad_to(&pad, 2, 7); /* past it already: one space */
    pad_text(&pad, "z");
    ck_assert_str_eq(end(&pad), "x\nab   long z");
}
END_TEST

START_TEST(what_does_not_fit_is_cut)
{
    struct pad pad = {bytes, 0, 5};
    bytes[5] = 'S';
    pad_text(&pad, "abc");
    pad_number(&pad, 12345);
    pad_json(&pad, "x");
    pad_to(&pad, 0, 60);
    ck_assert_uint_eq(pad.used, 5);
    ck_assert_mem_eq(bytes, "abc12S", 6);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("pad");
    tcase_add_loop_test(tcase, any_bytes_become_json, 0, sizeof(texts) / sizeof(texts[0]));
    tcase_add_loop_test(tcase, any_bytes_become_plain, 0, sizeof(texts) / sizeof(texts[0]));
    tcase_add_loop_test(tcase, numbers_are_decimal, 0, sizeof(numbers) / sizeof(numbers[0]));
    tcase_add_test(tcase, columns_begin_where_they_should);
    tcase_add_test(tcase, what_does_not_fit_is_cut);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("pad", fill);
}
