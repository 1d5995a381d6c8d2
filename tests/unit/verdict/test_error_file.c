/* test_error_file.c: which exception an error file tells of. */
#include "config.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verdict/error_file.h"

static const struct {
    const char *contents, *text;
} files[] = {
    {"{\"message\": {\"message\": \"ValueError: no more data\", \"extraInfo\": {\"py_callstack\": "
     "\"Traceback\\n  "
     "File \\\"/home/me/lib.py\\\", line 3, in f\\n  File \\\"/home/me/train.py\\\", line 31, in "
     "<module>\\n\"}}}",
     "ValueError: no more data (train.py:31)"},
    {"{\"message\": {\"extraInfo\": {\"py_callstack\": \"File \\\"a.py\\\", line 2\", \"timestamp\": \"1\"}, "
     "\"message\": \"E: x\"}}",
     "E: x (a.py:2)"},
    {"{\"a\": [1, {\"message\": \"not this\"}, \"}\"] , \"b\" : true, \"message\" : \"only this\"}",
     "only this"},
    {"{\"message\": \"one line\\nand another\"}", "one line"},
    {"{\"message\": \"\\u00e4 \\ud83d\\ude00 \\ud83d \\u20ac \\\" \\\\ \\t|\"}", "ä 😀 ? € \" \\ ?|"},
    {"{\"message\": \"cut", "cut"},
    {"{\"message\": {\"message\": 7}}", ""},
    {"{\"message\": \"escape at the end\\", "escape at the end\\"},
    {"{\"message\": \"half \\u00", "half ?00"},
    {"{\"message\"", ""},
    {"{\"messages\": \"x\", \"message", ""},
    {"[\"message\", \"x\"]", ""},
    {"{\"a\": ]]]]", ""},
    {"", ""},
};

static int file_with(const char *contents)
{
    int fd = memfd_create("error", 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, contents, strlen(contents)), (ssize_t)strlen(contents));
    return fd;
}

START_TEST(what_ended_the_program)
{
    char text[300];
    int fd = file_with(files[_i].contents);
    error_file_read(fd, text, sizeof(text));
    ck_assert_str_eq(text, files[_i].text);
    close(fd);
}
END_TEST

/* Each file, cut anywhere. */
START_TEST(a_cut_file_is_read_up_to_its_end)
{
    char text[300];
    char contents[512];
    snprintf(contents, sizeof(contents), "%s", files[_i].contents);
    for (size_t length = strlen(contents); length > 0; length--) {
        contents[length - 1] = 0;
        int fd = file_with(contents);
        error_file_read(fd, text, sizeof(text));
        close(fd);
    }
}
END_TEST

START_TEST(no_file_says_nothing)
{
    char text[300] = "before";
    error_file_read_path("/nowhere/error", text, sizeof(text));
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(a_long_message_is_cut)
{
    char text[40];
    int fd = file_with("{\"message\": \"0123456789012345678901234567890123456789\"}");
    error_file_read(fd, text, sizeof(text));
    ck_assert_str_eq(text, "01234567890123456789012345678");
    close(fd);
}
END_TEST

static void fill(Suite *suite)
{
    const int count = sizeof(files) / sizeof(files[0]);
    TCase *tcase = tcase_create("error_file");
    unit_add_rounds(tcase, what_ended_the_program, 0, count);
    unit_add_rounds(tcase, a_cut_file_is_read_up_to_its_end, 0, count);
    tcase_add_test(tcase, no_file_says_nothing);
    tcase_add_test(tcase, a_long_message_is_cut);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("error_file", fill);
}
