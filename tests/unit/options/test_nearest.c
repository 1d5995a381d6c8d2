/* test_nearest.c: what a mistyped word was meant to be. */
#include "unit.h"

#include <string.h>

#include "options/nearest.h"
#include "options/option.h"

static const struct {
    const char *word, *other;
    int distance;
} pairs[] = {
    {"", "", 0},
    {"fusion", "fusion", 0},
    {"fuson", "fusion", 1},
    {"fusion", "fuson", 1},
    {"fussion", "fusion", 1},
    {"fusoin", "fusion", 2},
    {"kitten", "sitting", 3},
    {"", "abc", 3},
    {"abc", "", 3},
};

START_TEST(distances_are_counted)
{
    ck_assert_int_eq(nearest_distance(pairs[_i].word, pairs[_i].other), pairs[_i].distance);
}
END_TEST

START_TEST(long_words_are_far)
{
    char word[100];
    memset(word, 'a', sizeof(word) - 1);
    word[sizeof(word) - 1] = 0;
    ck_assert_int_gt(nearest_distance(word, word), 2);
    word[63] = 0;
    ck_assert_int_eq(nearest_distance(word, word), 0);
}
END_TEST

static const struct {
    const char *word, *meant;
} words[] = {
    {"fuson", "fusion"},
    {"stall-warm", "stall-warn"},
    {"backend", "backends"},
    {"nonsense", NULL},
    {"x", NULL},
    {"lgo", NULL},
    {"", NULL},
};

START_TEST(the_nearest_option_is_found)
{
    const char *near = option_nearest(words[_i].word);
    if (words[_i].meant == NULL)
        ck_assert_ptr_null(near);
    else
        ck_assert_str_eq(near, words[_i].meant);
}
END_TEST

START_TEST(a_hint_names_the_nearest_or_the_way_to_it)
{
    char text[NEAREST_HINT_BYTES];
    struct nearest nearest = {.word = "fuson"};
    ck_assert_str_eq(nearest_hint(&nearest, "look it up", text), "look it up");
    nearest_try(&nearest, "fusion");
    ck_assert_str_eq(nearest_hint(&nearest, "look it up", text), "did you mean fusion?");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("nearest");
    tcase_add_loop_test(tcase, distances_are_counted, 0, sizeof(pairs) / sizeof(pairs[0]));
    tcase_add_test(tcase, long_words_are_far);
    tcase_add_loop_test(tcase, the_nearest_option_is_found, 0, sizeof(words) / sizeof(words[0]));
    tcase_add_test(tcase, a_hint_names_the_nearest_or_the_way_to_it);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("nearest", fill);
}
