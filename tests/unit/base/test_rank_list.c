/* test_rank_list.c: lists of ranks in words, sorted, searched, and checked. */
#include "config.h"
#include "unit.h"

#include <limits.h>
#include <string.h>

#include "base/rank_list.h"

static const struct {
    int ranks[8], count;
    const char *text;
} lists[] = {
    {{0}, 1, "0"},
    {{0, 1}, 2, "0,1"},
    {{0, 1, 2, 3, 8}, 5, "0-3,8"},
    {{5, 4, 3}, 3, "5,4,3"},
    {{7, 0, 1, 2, 7, 8, 9}, 7, "7,0-2,7-9"},
    {{INT_MAX - 1, INT_MAX, INT_MIN}, 3, "2147483646,2147483647,-2147483648"},
    {{0}, 0, ""},
};

START_TEST(lists_are_written_as_a_reader_would)
{
    char text[RANK_LIST_TEXT_BYTES];
    ck_assert_str_eq(rank_list_text(lists[_i].ranks, lists[_i].count, text, sizeof(text)), lists[_i].text);
}
END_TEST

/* Exactly sized, for the address sanitizer: never beyond it, and what is cut says so. */
START_TEST(a_long_list_is_cut)
{
    int ranks[60];
    for (int i = 0; i < 60; i++)
        ranks[i] = 3 * i;
    for (size_t room = 4; room < 300; room++) {
        char *text = malloc(room);
        ck_assert_ptr_nonnull(text);
        rank_list_text(ranks, 60, text, room);
        size_t length = strlen(text);
        ck_assert_uint_lt(length, room);
        if (strcmp(text + length - 3, "177") != 0)
            ck_assert_str_eq(text + length - 3, "...");
        free(text);
    }
}
END_TEST

START_TEST(runs_are_written_as_the_list_of_their_ranks)
{
    static const struct rank_run runs[] = {{0, 3}, {8, 8}, {INT_MAX - 1, INT_MAX}};
    char text[RANK_LIST_TEXT_BYTES];
    ck_assert_str_eq(rank_runs_text(runs, 3, text, sizeof(text)), "0-3,8,2147483646,2147483647");
    ck_assert_str_eq(rank_runs_text(runs, 3, text, 10), "0-3,8...");
    ck_assert_str_eq(rank_runs_text(runs, 0, text, sizeof(text)), "");
}
END_TEST

START_TEST(lists_are_searched)
{
    static const int ranks[] = {0, 3, 5, INT_MAX};
    for (int i = 0; i < 4; i++) {
        ck_assert(rank_list_has(ranks, 4, ranks[i]));
        ck_assert(!rank_list_has(ranks, i, ranks[i]));
    }
    ck_assert(!rank_list_has(ranks, 4, 4));
    ck_assert(!rank_list_has(ranks, 4, INT_MIN));
}
END_TEST

START_TEST(lists_are_sorted)
{
    int ranks[] = {3, INT_MIN, 5, INT_MAX, 0};
    static const int sorted[] = {INT_MIN, 0, 3, 5, INT_MAX};
    rank_list_sort(ranks, 5);
    ck_assert_mem_eq(ranks, sorted, sizeof(sorted));
}
END_TEST

static const struct {
    int ranks[4], count;
    const char *text;
} bad[] = {
    {{0, 1, 4}, 3, "x: ranks[2] is 4; expected 0 to 3"},
    {{-1}, 1, "x: ranks[0] is -1; expected 0 to 3"},
    {{2, 0, 2}, 3, "x: rank 2 is in the list twice; name each once"},
    {{0}, 0, "x: the list of ranks has no elements; at least one is needed"},
    {{0}, -3, "x: the list of ranks has no elements; at least one is needed"},
};

START_TEST(bad_lists_are_refused)
{
    struct hvd_error err = {""};
    ck_assert_int_eq(rank_list_check(&(struct hvd_ranks){bad[_i].ranks, bad[_i].count}, 4, "x", &err),
                     HVD_ERR_INVALID);
    ck_assert_str_eq(err.text, bad[_i].text);
}
END_TEST

START_TEST(good_lists_are_taken)
{
    static const int ranks[] = {3, 0, 2, 1};
    struct hvd_error err = {""};
    for (int count = 1; count <= 4; count++)
        ck_assert_int_eq(rank_list_check(&(struct hvd_ranks){ranks, count}, 4, "x", &err), HVD_OK);
    ck_assert_int_eq(rank_list_check(&(struct hvd_ranks){NULL, 2}, 4, "x", &err), HVD_ERR_INVALID);
    ck_assert_str_eq(err.text, "x: the list of ranks is NULL, but has 2 elements");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("rank_list");
    tcase_add_loop_test(tcase, lists_are_written_as_a_reader_would, 0, sizeof(lists) / sizeof(lists[0]));
    tcase_add_test(tcase, a_long_list_is_cut);
    tcase_add_test(tcase, lists_are_sorted);
    tcase_add_test(tcase, runs_are_written_as_the_list_of_their_ranks);
    tcase_add_test(tcase, lists_are_searched);
    tcase_add_loop_test(tcase, bad_lists_are_refused, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tcase, good_lists_are_taken);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("rank_list", fill);
}
