/* test_option.c: the table of options, and the check of one value. */
#include "unit.h"

#include <string.h>

#include "base/option.h"
#include "base/planes.h"

START_TEST(every_default_passes_the_parser)
{
    const struct hvd_option *option = &option_table[_i];
    struct hvd_error err = {""};
    uint64_t value = 0;
    ck_assert_ptr_nonnull(option->name);
    ck_assert_ptr_eq(option_find(option->name), option);
    if (option->retired == NULL && option->def[0] != 0)
        ck_assert_msg(option_parse(option, "x", option->def, &value, &err) == HVD_OK, "%s", err.text);
}
END_TEST

static const struct {
    enum option_id id;
    const char *text;
    const char *expect; /* part of the sentence; NULL: accepted */
} cases[] = {
    {OPT_FUSION, "64M", NULL},
    {OPT_FUSION, "0", NULL},
    {OPT_FUSION, "16G", NULL},
    {OPT_FUSION, "17G", "is too large"},
    {OPT_FUSION, "64Q", "has an unknown unit"},
    {OPT_FUSION, "-1", "does not begin with a digit"},
    {OPT_FUSION, "99999999999T", "is too large"},
    {OPT_FUSION, "", "is empty"},
    {OPT_PLANES, "auto", NULL},
    {OPT_PLANES, "tcp,mpi", NULL},
    {OPT_PLANES, "tcp,tcp", "twice"},
    {OPT_PLANES, "udp", "unknown"},
    {OPT_PLANES, "tcp,", "unknown"},
    {OPT_PLANES, "", "unknown"},
    {OPT_LEASE, "1ms", "is too small"},
    {OPT_LOG, "loud", "expected one of off, error, warn, info, debug"},
    {OPT_CYCLE_TIME, "1ms", "hvd acts when something happens"},
};

START_TEST(values_are_checked)
{
    struct hvd_error err = {""};
    uint64_t value = 4711;
    int rc = option_parse(&option_table[cases[_i].id], "--hvd-x", cases[_i].text, &value, &err);
    if (cases[_i].expect == NULL) {
        ck_assert_msg(rc == HVD_OK, "%s", err.text);
        return;
    }
    ck_assert_int_eq(rc, HVD_ERR_INVALID);
    ck_assert_uint_eq(value, 4711);
    ck_assert_msg(strstr(err.text, cases[_i].expect) != NULL, "%s", err.text);
    ck_assert_msg(strncmp(err.text, "--hvd-x", 7) == 0, "%s", err.text);
}
END_TEST

START_TEST(a_list_keeps_its_order)
{
    uint64_t list = 0;
    ck_assert_int_eq(option_parse(&option_table[OPT_PLANES], "x", "tcp,mpi", &list, NULL), HVD_OK);
    ck_assert_int_eq(option_list_at(list, 0), PLANE_TCP);
    ck_assert_int_eq(option_list_at(list, 1), PLANE_MPI);
    ck_assert_int_eq(option_list_at(list, 2), -1);
}
END_TEST

START_TEST(too_long_a_value_is_refused)
{
    char text[OPTION_VALUE_BYTES + 2];
    uint64_t value = 0;
    memset(text, '1', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    ck_assert_int_eq(option_parse(&option_table[OPT_FUSION], "x", text, &value, NULL), HVD_ERR_INVALID);
}
END_TEST

START_TEST(environment_names_are_derived)
{
    char name[64];
    option_env_name(&option_table[OPT_START_TIMEOUT], name);
    ck_assert_str_eq(name, "HVD_START_TIMEOUT");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("option");
    tcase_add_loop_test(tcase, every_default_passes_the_parser, 0, OPT_COUNT);
    tcase_add_loop_test(tcase, values_are_checked, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tcase, a_list_keeps_its_order);
    tcase_add_test(tcase, too_long_a_value_is_refused);
    tcase_add_test(tcase, environment_names_are_derived);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("option", fill);
}
