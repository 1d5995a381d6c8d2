/* test_hvdrun_traceback.c: hvdrun finds the exception that ended a Python program in its standard error. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "tools/hvdrun/traceback.h"

#define HEADING "Traceback (most recent call last):\n"
#define FRAMES                                             \
    "  File \"/usr/lib/runpy.py\", line 3, in f\n"         \
    "    first()\n"                                        \
    "  File \"/home/me/train.py\", line 31, in <module>\n" \
    "    main()\n"                                         \
    "    ^^^^^^\n"

/* However the pipe cuts what the program writes, that is found. */
static void expect(const char *output, const char *error)
{
    size_t length = strlen(output);
    for (size_t cut = 0; cut <= length; cut++) {
        struct traceback traceback = {.used = 0};
        traceback_feed(&traceback, output, cut);
        traceback_feed(&traceback, output + cut, length - cut);
        ck_assert_str_eq(traceback.error, error);
    }
}

START_TEST(an_exception_is_found_with_its_last_frame)
{
    expect(HEADING FRAMES "ValueError: no more data\n", "ValueError: no more data (train.py:31)");
    expect("loading\n" HEADING FRAMES "KeyboardInterrupt\nbye\n", "KeyboardInterrupt (train.py:31)");
    expect(HEADING "ValueError: no frames\n", "ValueError: no frames");
    expect(HEADING FRAMES "ValueError: two\nlines\n", "ValueError: two (train.py:31)");
}
END_TEST

START_TEST(the_last_of_several_counts)
{
    expect(HEADING FRAMES "KeyError: 'first'\n\n"
                          "During handling of the above exception, another exception occurred:\n\n" HEADING
                          "  File \"last.py\", line 7, in <module>\nOSError: last\n",
           "OSError: last (last.py:7)");
}
END_TEST

START_TEST(other_output_is_no_exception)
{
    expect("", "");
    expect("ValueError: no traceback\n", "");
    expect("my " HEADING FRAMES "ValueError: quoted\n", "");
    expect(HEADING FRAMES, "");
    expect(HEADING FRAMES "ValueError: unfinished", "");
}
END_TEST

START_TEST(long_lines_are_cut_and_control_characters_replaced)
{
    char output[4096], many[2000];
    struct traceback traceback = {.used = 0};
    memset(many, 'x', sizeof(many));
    snprintf(output, sizeof(output), HEADING FRAMES "ValueError: \033[2J%.*s\n", (int)sizeof(many), many);
    traceback_feed(&traceback, output, strlen(output));
    ck_assert_mem_eq(traceback.error, "ValueError: ?[2Jxxx", 19);
    ck_assert_uint_lt(strlen(traceback.error), sizeof(traceback.error));
    ck_assert_ptr_nonnull(strstr(traceback.error, "x (train.py:31)"));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("traceback");
    tcase_add_test(tcase, an_exception_is_found_with_its_last_frame);
    tcase_add_test(tcase, the_last_of_several_counts);
    tcase_add_test(tcase, other_output_is_no_exception);
    tcase_add_test(tcase, long_lines_are_cut_and_control_characters_replaced);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_traceback", fill);
}
