/* test_strbuf.c: text built in fixed memory. */
#include "unit.h"

#include <string.h>

#include "trace/strbuf.h"

static char bytes[64];

static const char *end(struct strbuf *strbuf)
{
    ck_assert_uint_lt(strbuf->used, sizeof(bytes));
    bytes[strbuf->used] = 0;
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
    {"\xed\x9f\xbf", "\"\xed\x9f\xbf\"", "\xed\x9f\xbf"},             /* the last below the surrogates */
    {"\xe0\xa0\x80", "\"\xe0\xa0\x80\"", "\xe0\xa0\x80"},             /* the first of three bytes */
    {"\xf0\x90\x80\x80", "\"\xf0\x90\x80\x80\"", "\xf0\x90\x80\x80"}, /* of four */
    {"\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"", "\xf4\x8f\xbf\xbf"}, /* the last of all */
    {"\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\"", "\\xf4\\x90\\x80\\x80"}, /* beyond the last */
    {"\xff", "\"\\u00ff\"", "\\xff"},
};

START_TEST(any_bytes_become_json)
{
    struct strbuf strbuf = {bytes, 0, sizeof(bytes) - 1};
    strbuf_add_json(&strbuf, texts[_i].text);
    ck_assert_str_eq(end(&strbuf), texts[_i].json);
}
END_TEST

START_TEST(any_bytes_become_plain)
{
    struct strbuf strbuf = {bytes, 0, sizeof(bytes) - 1};
    strbuf_add_printable(&strbuf, texts[_i].text);
    ck_assert_str_eq(end(&strbuf), texts[_i].plain);
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
    struct strbuf strbuf = {bytes, 0, sizeof(bytes) - 1};
    strbuf_add_number(&strbuf, numbers[_i].number);
    ck_assert_str_eq(end(&strbuf), numbers[_i].text);
}
END_TEST

START_TEST(columns_begin_where_they_should)
{
    struct strbuf strbuf = {bytes, 0, sizeof(bytes) - 1};
    strbuf_add_text(&strbuf, "x\n");
    strbuf_add_text(&strbuf, "ab");
    strbuf_pad_to(&strbuf, 2, 5);
    strbuf_add_text(&strbuf, "long");
    strbuf_pad_to(&strbuf, 2, 7); /* past it already: one space */
    strbuf_add_text(&strbuf, "z");
    ck_assert_str_eq(end(&strbuf), "x\nab   long z");
}
END_TEST

static void add_everything(struct strbuf *strbuf)
{
    strbuf_add_text(strbuf, "abc");
    strbuf_add_number(strbuf, -12345);
    strbuf_add_json(strbuf, "x\"\n\xc3\xb6");
    strbuf_pad_to(strbuf, 0, 30);
    strbuf_add_printable(strbuf, "y\xff");
    strbuf_add_bytes(strbuf, "\0z", 2);
    strbuf_pad_to(strbuf, 0, 40);
}

/* Whatever the capacity: as much of the text as fits is there, and no byte behind it is touched. */
START_TEST(what_does_not_fit_is_cut)
{
    static const char all[] = "abc-12345\"x\\\"\\u000a\xc3\xb6\"        y\\xff\0z   ";
    ck_assert_uint_eq(sizeof(all) - 1, 40);
    for (size_t capacity = 0; capacity < sizeof(bytes); capacity++) {
        struct strbuf strbuf = {bytes, 0, capacity};
        size_t fits = capacity < sizeof(all) - 1 ? capacity : sizeof(all) - 1;
        memset(bytes, 'G', sizeof(bytes));
        add_everything(&strbuf);
        ck_assert_uint_eq(strbuf.used, fits);
        ck_assert_mem_eq(bytes, all, fits);
        ck_assert_int_eq(bytes[fits], 'G');
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("strbuf");
    unit_add_rounds(tcase, any_bytes_become_json, 0, sizeof(texts) / sizeof(texts[0]));
    unit_add_rounds(tcase, any_bytes_become_plain, 0, sizeof(texts) / sizeof(texts[0]));
    unit_add_rounds(tcase, numbers_are_decimal, 0, sizeof(numbers) / sizeof(numbers[0]));
    tcase_add_test(tcase, columns_begin_where_they_should);
    tcase_add_test(tcase, what_does_not_fit_is_cut);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("strbuf", fill);
}
