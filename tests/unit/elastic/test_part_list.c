/* test_part_list.c: which part of a state differs between ranks, and how. */
#include "config.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/part_list.h"

enum { RANKS = 3, MOST = 4 };

struct list {
    const char *names[MOST];
    int64_t bytes[MOST];
};

/* Compare the lists of three ranks, and check the sentence; NULL: they are equal. */
static void check(const struct list lists[RANKS], const char *sentence)
{
    char all[1000] = "";
    int64_t lengths[RANKS];
    struct hvd_error err;
    for (int rank = 0; rank < RANKS; rank++) {
        size_t length = 0;
        struct commits *commits = commits_create();
        for (int i = 0; i < MOST && lists[rank].names[i] != NULL; i++)
            ck_assert_int_eq(commits_add(commits, lists[rank].names[i], all, lists[rank].bytes[i], &err),
                             HVD_OK);
        char *text = part_list_write(commits, &length);
        ck_assert_uint_eq(strlen(text), length);
        strncat(all, text, length);
        lengths[rank] = (int64_t)length;
        free(text);
        commits_destroy(commits);
    }
    int rc = part_list_compare("f", all, lengths, RANKS, &err);
    ck_assert_int_eq(rc, sentence == NULL ? HVD_OK : HVD_ERR_MISMATCH);
    if (sentence != NULL)
        ck_assert_str_eq(err.text, sentence);
}

#define MEND "; add the same parts in the same order on all ranks"

START_TEST(the_first_part_that_differs_is_named)
{
    check((struct list[]){{{"a", "b c"}, {8, 5}}, {{"a", "b c"}, {8, 5}}, {{"a", "b c"}, {8, 5}}}, NULL);
    check((struct list[]){{{NULL}, {0}}, {{NULL}, {0}}, {{NULL}, {0}}}, NULL);
    check((struct list[]){{{"a", "b"}, {8, 5}}, {{"a", "b"}, {8, 5}}, {{"a", "b"}, {8, 6}}},
          "f: part 2 of the state is \"b\", 5 bytes, on rank 0, and \"b\", 6 bytes, on rank 2" MEND);
    check((struct list[]){{{"a", "b"}, {8, 5}}, {{"c", "b"}, {8, 5}}, {{"a", "b"}, {8, 6}}},
          "f: part 1 of the state is \"a\", 8 bytes, on rank 0, and \"c\", 8 bytes, on rank 1" MEND);
    check((struct list[]){{{"a", "b"}, {8, 5}}, {{"a"}, {8}}, {{"a", "b"}, {8, 5}}},
          "f: part 2 of the state is \"b\", 5 bytes, on rank 0, and missing on rank 1" MEND);
    check((struct list[]){{{NULL}, {0}}, {{NULL}, {0}}, {{"x"}, {0}}},
          "f: part 1 of the state is missing on rank 0, and \"x\", 0 bytes, on rank 2" MEND);
}
END_TEST

static const struct {
    const char *list; /* of rank 1 */
    const char *text; /* how it is described */
} damaged[] = {{"12\n", "damaged"},         {" \n5 a\n", "damaged"},
               {"a b\n", "damaged"},        {"-1 b\n", "damaged"},
               {"8 a\033[2J\n", "damaged"}, {"12345678901234567890 b\n", "damaged"},
               {"9 b", "missing"},          {"", "missing"}};

/* The bytes behind a list are no part of it. */
START_TEST(what_is_no_list_is_not_shown)
{
    char all[64], sentence[160];
    struct hvd_error err;
    int length = snprintf(all, sizeof(all), "8 a\n%s", damaged[_i].list);
    const int64_t lengths[] = {4, length - 4};
    memset(all + length, 'x', sizeof(all) - (size_t)length);
    ck_assert_int_eq(part_list_compare("f", all, lengths, 2, &err), HVD_ERR_MISMATCH);
    snprintf(sentence, sizeof(sentence),
             "f: part 1 of the state is \"a\", 8 bytes, on rank 0, and %s on rank 1" MEND, damaged[_i].text);
    ck_assert_str_eq(err.text, sentence);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("part_list");
    tcase_add_test(tcase, the_first_part_that_differs_is_named);
    tcase_add_loop_test(tcase, what_is_no_list_is_not_shown, 0, (int)(sizeof(damaged) / sizeof(damaged[0])));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("part_list", fill);
}
