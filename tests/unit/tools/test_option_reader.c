/* test_option_reader.c: options are found in a table, with their values, and values are stored or refused. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/option_reader.h"

struct made {
    bool fast;
    const char *file;
    int64_t count, bytes;
};

#define FIELD(name) offsetof(struct made, name)
static const struct tool_option table[] = {
    {"-f", "--fast", NULL, "hurry", option_take_flag, FIELD(fast), 0, 0},
    {"-o", "--output", "FILE", "where to write", option_take_text, FIELD(file), 0, 0},
    {NULL, "--count", "N", "how many", option_take_count, FIELD(count), 1, 9},
    {NULL, "--bytes", "SIZE", "how large", option_take_bytes, FIELD(bytes), 4, 1 << 20},
};

static struct made made;
static struct hvd_error err;

/* Read [word], after which [next] stands. Returns the number of words that it took, or the error. */
static int read_words(const char *word, const char *next)
{
    static char words[2][64];
    char *argv[] = {words[0], words[1], NULL};
    char *const *at = argv + 1;
    struct option_given given;
    if (next == NULL)
        argv[1] = NULL;
    snprintf(words[0], sizeof(words[0]), "%s", word);
    snprintf(words[1], sizeof(words[1]), "%s", next != NULL ? next : "");
    made = (struct made){.file = ""};
    err = (struct hvd_error){""};
    int rc = option_read(table, 4, argv[0], &at, &given, &err);
    if (rc == HVD_OK)
        rc = given.option->take(&made, &given, &err);
    return rc == HVD_OK ? (int)(at - argv) : rc;
}

START_TEST(values_are_in_the_word_or_next)
{
    ck_assert_int_eq(read_words("--output=a=b", "c"), 1);
    ck_assert_str_eq(made.file, "a=b");
    ck_assert_int_eq(read_words("--output", "c"), 2);
    ck_assert_str_eq(made.file, "c");
    ck_assert_int_eq(read_words("-oc", "d"), 1);
    ck_assert_str_eq(made.file, "c");
    ck_assert_int_eq(read_words("-o", "--fast"), 2);
    ck_assert_str_eq(made.file, "--fast");
    ck_assert(!made.fast);
    ck_assert_int_eq(read_words("-f", "c"), 1);
    ck_assert(made.fast);
    ck_assert_int_eq(read_words("--count=9", NULL), 1);
    ck_assert_int_eq(made.count, 9);
    ck_assert_int_eq(read_words("--bytes", "64K"), 2);
    ck_assert_int_eq(made.bytes, 65536);
}
END_TEST

START_TEST(what_the_table_lacks_is_left_to_the_caller)
{
    static const char *const words[] = {"-x", "--fas", "--faster", "-fo", "fast", "--output-dir=a",
                                        "-",  "--",    ""};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        ck_assert_int_eq(read_words(words[i], "c"), HVD_ERR_UNSUPPORTED);
        ck_assert_str_eq(err.text, "");
    }
}
END_TEST

START_TEST(what_is_wrong_is_refused_with_a_sentence)
{
    static const struct {
        const char *word, *sentence;
    } cases[] = {
        {"--output", "--output needs a value: expected FILE: where to write"},
        {"-o", "-o needs a value: expected FILE: where to write"},
        {"--output=", "--output is empty; expected FILE: where to write"},
        {"--fast=yes", "--fast takes no value, but was given yes"},
        {"--count=0", "--count=0: the number is too small; expected 1 to 9"},
        {"--count=10", "--count=10: the number is too large; expected 1 to 9"},
        {"--count=-1", "--count=-1: the number "},
        {"--bytes=2M", "--bytes=2M: the size is too large; expected 4 to 1M"},
    };
    ck_assert_int_eq(read_words(cases[_i].word, NULL), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, cases[_i].sentence) == err.text, "%s: %s", cases[_i].word, err.text);
    ck_assert(made.count == 0 && made.bytes == 0 && !made.fast);
}
END_TEST

START_TEST(spellings_are_those_of_help)
{
    char text[64];
    ck_assert_str_eq(tool_option_spelling(&table[0], text, sizeof(text)), "-f, --fast");
    ck_assert_str_eq(tool_option_spelling(&table[2], text, sizeof(text)), "--count=N");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("option_reader");
    tcase_add_test(tcase, values_are_in_the_word_or_next);
    tcase_add_test(tcase, what_the_table_lacks_is_left_to_the_caller);
    tcase_add_loop_test(tcase, what_is_wrong_is_refused_with_a_sentence, 0, 8);
    tcase_add_test(tcase, spellings_are_those_of_help);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("option_reader", fill);
}
