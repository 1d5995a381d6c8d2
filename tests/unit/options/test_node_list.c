/* test_node_list.c: names of nodes in lists as Slurm writes them. */
#include "unit.h"

#include <string.h>

#include "options/node_list.h"

static const struct {
    const char *list;
    const char *names[8]; /* all of them; none: it is refused */
} lists[] = {
    {"n1", {"n1"}},
    {"n1,m2", {"n1", "m2"}},
    {"n[1-3]", {"n1", "n2", "n3"}},
    {"n[08-10,7],m1", {"n08", "n09", "n10", "n7", "m1"}},
    {"r[2-3]n[04-05]-ib,login", {"r2n04-ib", "r2n05-ib", "r3n04-ib", "r3n05-ib", "login"}},
    {"", {NULL}},
    {"n[1-3", {NULL}},
    {"n[]", {NULL}},
    {"n[3-1]", {NULL}},
    {"n[a-b]", {NULL}},
    {"n[1,]", {NULL}},
    {"n[1-99999999999]", {NULL}},
    {"n[1-1048576]m[1-2]", {NULL}},
};

START_TEST(a_list_has_its_names)
{
    char host[32];
    int count = 0;
    for (; lists[_i].names[count] != NULL; count++) {
        ck_assert(node_list_at(lists[_i].list, count, host, sizeof(host)));
        ck_assert_str_eq(host, lists[_i].names[count]);
        ck_assert(node_list_has(lists[_i].list, host));
    }
    ck_assert(!node_list_at(lists[_i].list, count, host, sizeof(host)));
    ck_assert(!node_list_has(lists[_i].list, "n4"));
    ck_assert_int_eq(node_list_count(lists[_i].list), count);
}
END_TEST

/* Its first names can be told, but it is no list. */
START_TEST(a_damaged_end_makes_it_none)
{
    char host[4];
    ck_assert(node_list_at("n1,m[1-", 0, host, sizeof(host)));
    ck_assert_int_eq(node_list_count("n1,m[1-"), 0);
    ck_assert_int_eq(node_list_count("n[1-1048576],m1"), 0);
}
END_TEST

START_TEST(a_name_that_does_not_fit_is_refused)
{
    char host[4];
    ck_assert(node_list_at("n[98-100]", 1, host, sizeof(host)));
    ck_assert(!node_list_at("n[98-100]", 2, host, sizeof(host)));
    ck_assert(!node_list_at("node", 0, host, sizeof(host)));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("node_list");
    tcase_add_loop_test(tcase, a_list_has_its_names, 0, sizeof(lists) / sizeof(lists[0]));
    tcase_add_test(tcase, a_damaged_end_makes_it_none);
    tcase_add_test(tcase, a_name_that_does_not_fit_is_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("node_list", fill);
}
