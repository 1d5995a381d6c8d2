/* test_json.c: objects that tools write as JSON. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/json.h"

static char *written; /* by the object under test, once the file is closed */
static size_t written_bytes;

static FILE *open_memory(void)
{
    FILE *file = open_memstream(&written, &written_bytes);
    ck_assert_ptr_nonnull(file);
    return file;
}

static void expect_written(FILE *file, const char *expected)
{
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_str_eq(written, expected);
    free(written);
}

START_TEST(members_of_all_kinds)
{
    FILE *file = open_memory();
    struct json json = json_open(file);
    json_text(&json, "text", "a \"b\"\n\\");
    json_count(&json, "count", INT64_MIN);
    json_number(&json, "bytes", 123456789012.0);
    json_number(&json, "ratio", 1.0 / 3);
    json_number(&json, "none", INFINITY);
    json_flag(&json, "yes", true);
    json_flag(&json, "no", false);
    json_open_array(&json, "texts");
    json_add_text(&json, 0, "x");
    json_add_text(&json, 1, "");
    json_close_array(&json);
    json_close_line(&json);
    expect_written(file, "{\"text\":\"a \\\"b\\\"\\u000a\\\\\",\"count\":-9223372036854775808,"
                         "\"bytes\":123456789012,\"ratio\":0.333333,\"none\":null,"
                         "\"yes\":true,\"no\":false,\"texts\":[\"x\",\"\"]}\n");
}
END_TEST

START_TEST(an_object_without_members)
{
    FILE *file = open_memory();
    struct json json = json_open(file);
    json_close(&json);
    expect_written(file, "{}");
}
END_TEST

/* A long text is escaped in parts: [_i] letters lie before characters of 2, 3 and 4 bytes. */
START_TEST(no_character_is_torn)
{
    static const char characters[] = "\u00e4\u20ac\U0001f600";
    const size_t character_bytes = sizeof(characters) - 1;
    char text[1024] = "", expected[1100];
    memset(text, 'x', (size_t)_i);
    for (size_t i = 0; i < 40; i++)
        memcpy(text + (size_t)_i + i * character_bytes, characters, character_bytes);
    snprintf(expected, sizeof(expected), "{\"k\":\"%s\"}", text);
    FILE *file = open_memory();
    struct json json = json_open(file);
    json_text(&json, "k", text);
    json_close(&json);
    expect_written(file, expected);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("json");
    tcase_add_test(tcase, members_of_all_kinds);
    tcase_add_test(tcase, an_object_without_members);
    tcase_add_loop_test(tcase, no_character_is_torn, 0, 12);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("json", fill);
}
