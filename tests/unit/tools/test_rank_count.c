/* test_rank_count.c: how many ranks follow from -n and resource sets. */
#include "tools/hvdrun/rank_count.h"

#include <string.h>

#include "unit.h"

static const struct {
    int asked;
    const char *rs; /* NULL: no resource sets */
    int count;      /* 0: refused */
    int tasks;      /* tasks in each set, afterwards */
    const char *says;
} cases[] = {
    {0, NULL, 1, 0, ""},
    {5, NULL, 5, 0, ""},
    {0, "cpus:2", 1, 0, ""},
    {0, "tasks:3", 3, 3, ""},
    {0, "nrs:4", 4, 1, ""},
    {0, "nrs:4,tasks:3", 12, 3, ""},
    {0, "rs_per_host:2,tasks:3", 6, 3, ""},
    {0, "np:6", 6, 0, ""},
    {0, "np:6,nrs:2", 6, 3, ""},
    {6, "nrs:2", 6, 3, ""},
    {6, "nrs:2,tasks:3", 6, 3, ""},
    {6, "tasks:4", 6, 4, ""},
    {6, "np:6", 6, 0, ""},
    {6, "np:5", 0, 0, "np:5"},
    {3, "nrs:2,tasks:2", 0, 2, "2 resource sets of 2 tasks are 4"},
    {5, "nrs:2", 0, 0, "2 resource sets of 1 task are 2"},
    {2, "nrs:1,tasks:1", 0, 1, "1 resource set of 1 task is 1"},
    {0, "nrs:4097", 0, 0, "up to 4096"},
    {0, "nrs:1048576,tasks:1048576", 0, 1048576, "1099511627776 ranks"},
    {0, "np:5000", 0, 0, "up to 4096"},
};

START_TEST(ranks_are_counted)
{
    struct rs_options rs;
    struct hvd_error err = {""};
    const char *why = "";
    int count = 0;
    rs_init(&rs);
    if (cases[_i].rs != NULL)
        ck_assert_msg(rs_parse(cases[_i].rs, &rs, &why) == 0, "%s", why);
    int rc = rank_count(cases[_i].asked, cases[_i].rs != NULL ? &rs : NULL, &count, &err);
    ck_assert_int_eq(rc, cases[_i].count > 0 ? HVD_OK : HVD_ERR_INVALID);
    ck_assert_int_eq(count, cases[_i].count);
    ck_assert_int_eq(rs.tasks, cases[_i].tasks);
    ck_assert_msg(strstr(err.text, cases[_i].says) != NULL, "%s", err.text);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("count");
    unit_add_rounds(tcase, ranks_are_counted, 0, sizeof(cases) / sizeof(cases[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("rank_count", fill);
}
