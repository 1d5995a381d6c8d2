/* test_option.c: the table of options, and the check of one value. */
#include "unit.h"

#include <signal.h>
#include <string.h>

#include "base/option.h"
#include "base/backend_id.h"

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
    {OPT_BACKENDS, "auto", NULL},
    {OPT_BACKENDS, "tcp,mpi", NULL},
    {OPT_BACKENDS, "tcp,tcp", "twice"},
    {OPT_BACKENDS, "udp", "unknown"},
    {OPT_BACKENDS, "tcp,", "unknown"},
    {OPT_BACKENDS, "", "unknown"},
    {OPT_TCP_STREAMS, "1", NULL},
    {OPT_TCP_STREAMS, "16", NULL},
    {OPT_TCP_STREAMS, "0", "is too small; expected a whole number between 1 and 16"},
    {OPT_TCP_STREAMS, "17", "is too large"},
    {OPT_LEASE, "1ms", "is too small"},
    {OPT_CACHE, "0", NULL},
    {OPT_CACHE, "2147483647", NULL},
    {OPT_CACHE, "2147483648", "is too large; expected a whole number between 0 and 2147483647"},
    {OPT_CACHE, "1K", "is not a whole number"},
    {OPT_CACHE, "-1", "does not begin with a digit"},
    {OPT_STALL_WARN, "0", NULL},
    {OPT_STALL_WARN, "60", "has no unit"},
    {OPT_STALL_WARN, "25h", "is too large"},
    {OPT_STALL_ABORT, "24h", NULL},
    {OPT_TIMELINE, "/tmp/t", NULL},
    {OPT_TIMELINE, "", "is empty; expected the name of a folder"},
    {OPT_DUMP_DIR, "", "is empty; expected the name of a folder"},
    {OPT_CONFIG, "", "is empty; expected the name of a file"},
    {OPT_STOP_SIGNAL, "none", NULL},
    {OPT_STOP_SIGNAL, "USR1", NULL},
    {OPT_STOP_SIGNAL, "USR2", "is not a choice; expected one of none, TERM, INT, HUP, USR1"},
    {OPT_STOP_SIGNAL, "KILL", "is not a choice"},
    {OPT_PROGRESS, "adaptive", NULL},
    {OPT_PROGRESS, "spin", NULL},
    {OPT_PROGRESS, "block", NULL},
    {OPT_PROGRESS, "poll", "is not a choice; expected one of adaptive, spin, block"},
    {OPT_BIND, "auto,verbose,smt:2,reserve:1", NULL},
    {OPT_BIND, "near", "has an unknown word; expected auto, gpu, numa, socket, l3, core or none"},
    {OPT_GPU_VISIBLE, "one", NULL},
    {OPT_GPU_VISIBLE, "mine", "is not a choice; expected one of all, one"},
    {OPT_NICS, "eth0,10.0.0.0/8", NULL},
    {OPT_NICS, "eth0,eth0", "has a name twice; expected auto, or names of network interfaces"},
    {OPT_RS, "tasks:1,cpus:7,gpus:1,bind:packed:7", NULL},
    {OPT_RS, "tasks:one", "not a whole one; expected KEY:VALUE with commas between"},
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
    ck_assert_int_eq(option_parse(&option_table[OPT_BACKENDS], "x", "tcp,mpi", &list, NULL), HVD_OK);
    ck_assert_int_eq(option_list_choice(list, 0), BACKEND_TCP);
    ck_assert_int_eq(option_list_choice(list, 1), BACKEND_MPI);
    ck_assert_int_eq(option_list_choice(list, 2), -1);
}
END_TEST

START_TEST(a_stop_signal_has_its_number)
{
    static const struct {
        const char *text;
        int number;
    } signals[] = {{"none", 0}, {"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}, {"USR1", SIGUSR1}};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        uint64_t choice = 0;
        ck_assert_int_eq(option_parse(&option_table[OPT_STOP_SIGNAL], "x", signals[i].text, &choice, NULL),
                         HVD_OK);
        ck_assert_int_eq(option_signal(choice), signals[i].number);
    }
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
    tcase_add_test(tcase, a_stop_signal_has_its_number);
    tcase_add_test(tcase, too_long_a_value_is_refused);
    tcase_add_test(tcase, environment_names_are_derived);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("option", fill);
}
