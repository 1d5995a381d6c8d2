/* test_bitmap.c: sets of CPUs, and lists of them that are read and written. */
#include "topo/bitmap.h"

#include <string.h>

#include "unit.h"

static const struct {
    const char *text, *again; /* as it is written again; NULL: the same */
    int count;
} lists[] = {
    {"", NULL, 0},          {"0", NULL, 1},
    {"0-3,64-67", NULL, 8}, {"4095", NULL, 1},
    {"0-4095", NULL, 4096}, {"3,1,2,7\n", "1-3,7", 4},
    {"5-5,6", "5-6", 2},    {"63-64,127-128", NULL, 4},
};

START_TEST(lists_are_read_and_written)
{
    struct bitmap set = {{7}};
    char text[BITMAP_TEXT_BYTES];
    const char *why = "";
    ck_assert_int_eq(bitmap_parse(lists[_i].text, &set, &why), 0);
    ck_assert_int_eq(bitmap_weight(&set), lists[_i].count);
    ck_assert_str_eq(bitmap_text(&set, text, sizeof(text)),
                     lists[_i].again != NULL ? lists[_i].again : lists[_i].text);
}
END_TEST

static const struct {
    const char *text, *why;
} bad[] = {
    {"4096", "4096 or more"},
    {"0-4096", "4096 or more"},
    {"99999999999999999999", "4096 or more"},
    {"a", "not a list"},
    {"1,", "not a list"},
    {"1,\n", "not a list"},
    {",1", "not a list"},
    {"1-", "not a list"},
    {"-1", "not a list"},
    {" 1", "not a list"},
    {"1 2", "not a list"},
    {"3-1", "ends before it begins"},
    {"1\n2", "more than one line"},
    {"1-2-3", "not a list"},
};

START_TEST(bad_lists_are_refused)
{
    struct bitmap set = {{7}};
    const char *why = "";
    ck_assert_int_eq(bitmap_parse(bad[_i].text, &set, &why), -1);
    ck_assert_msg(strstr(why, bad[_i].why) != NULL, "%s: %s", bad[_i].text, why);
    ck_assert_int_eq(bitmap_weight(&set), 3);
}
END_TEST

START_TEST(what_does_not_fit_is_said)
{
    struct bitmap set = {{0}};
    const char *why;
    char text[12];
    ck_assert_int_eq(bitmap_parse("0,2,4,6,8,10,12", &set, &why), 0);
    ck_assert_str_eq(bitmap_text(&set, text, sizeof(text)), "0,2,4,6...");
}
END_TEST

START_TEST(the_longest_list_fits)
{
    struct bitmap set = {{0}}, again;
    static char text[BITMAP_TEXT_BYTES];
    const char *why = "";
    for (int i = 1; i < BITMAP_BITS; i += 2)
        bitmap_set(&set, i);
    bitmap_text(&set, text, sizeof(text));
    ck_assert_ptr_null(strstr(text, "..."));
    ck_assert_int_eq(bitmap_parse(text, &again, &why), 0);
    ck_assert(bitmap_is_equal(&set, &again));
}
END_TEST

START_TEST(sets_are_combined)
{
    struct bitmap a, b, c;
    const char *why;
    char text[64];
    bitmap_parse("0-9,100", &a, &why);
    bitmap_parse("5-14,200", &b, &why);
    ck_assert(bitmap_intersects(&a, &b));
    c = a;
    bitmap_and(&c, &b);
    ck_assert_str_eq(bitmap_text(&c, text, sizeof(text)), "5-9");
    ck_assert(bitmap_is_included(&c, &a) && bitmap_is_included(&c, &b) && !bitmap_is_included(&a, &b));
    c = a;
    bitmap_or(&c, &b);
    ck_assert_str_eq(bitmap_text(&c, text, sizeof(text)), "0-14,100,200");
    ck_assert(!bitmap_is_empty(&c));
    bitmap_parse("300", &c, &why);
    ck_assert(!bitmap_intersects(&c, &a));
    bitmap_and(&c, &b);
    ck_assert(bitmap_is_empty(&c));
    bitmap_clear(&a, 100);
    ck_assert(!bitmap_is_set(&a, 100) && bitmap_is_set(&a, 9) && !bitmap_is_set(&a, -1) &&
              !bitmap_is_set(&a, BITMAP_BITS));
    ck_assert_int_eq(bitmap_find_next(&a, 10), -1);
    ck_assert_int_eq(bitmap_find_next(&b, 15), 200);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("bitmap");
    unit_add_rounds(tcase, lists_are_read_and_written, 0, sizeof(lists) / sizeof(lists[0]));
    unit_add_rounds(tcase, bad_lists_are_refused, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tcase, what_does_not_fit_is_said);
    tcase_add_test(tcase, the_longest_list_fits);
    tcase_add_test(tcase, sets_are_combined);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("bitmap", fill);
}
