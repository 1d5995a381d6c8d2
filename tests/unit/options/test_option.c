/* test_option.c: the table of options, and the check of one value. */
#include "unit.h"

#include <signal.h>
#include <string.h>

#include "options/config.h"
#include "base/backend_id.h"

START_TEST(every_default_passes_the_parser)
{
    const struct hvd_option *option = &option_table[_i];
    struct hvd_error err = {""};
    ck_assert_ptr_nonnull(option->name);
    ck_assert_ptr_eq(option_find(option->name), option);
    if (option->retired == NULL && option->def[0] != 0)
        ck_assert_msg(option_parse(option, "x", option->def, NULL, &err) == HVD_OK, "%s", err.text);
}
END_TEST

static const struct {
    const char *option, *text;
    const char *expect; /* part of the sentence; NULL: accepted */
} cases[] = {
    {"fusion", "64M", NULL},
    {"fusion", "0", NULL},
    {"fusion", "16G", NULL},
    {"fusion", "17G", "is too large"},
    {"fusion", "64Q", "has an unknown unit"},
    {"fusion", "-1", "does not begin with a digit"},
    {"fusion", "99999999999T", "is too large"},
    {"fusion", "", "is empty"},
    {"backends", "auto", NULL},
    {"backends", "tcp,mpi", NULL},
    {"backends", "tcp,tcp", "twice"},
    {"backends", "udp", "unknown"},
    {"backends", "tcp,", "unknown"},
    {"backends", "", "unknown"},
    {"tcp-streams", "1", NULL},
    {"tcp-streams", "16", NULL},
    {"tcp-streams", "0", "is too small; expected a whole number between 1 and 16"},
    {"tcp-streams", "17", "is too large"},
    {"lease", "1ms", "is too small"},
    {"cache", "0", NULL},
    {"cache", "2147483647", NULL},
    {"cache", "2147483648", "is too large; expected a whole number between 0 and 2147483647"},
    {"cache", "1K", "is not a whole number"},
    {"cache", "-1", "does not begin with a digit"},
    {"stall-warn", "0", NULL},
    {"stall-warn", "60", "has no unit"},
    {"stall-warn", "25h", "is too large"},
    {"stall-abort", "24h", NULL},
    {"timeline", "/tmp/t", NULL},
    {"timeline", "", "is empty; expected the name of a folder"},
    {"dump-dir", "", "is empty; expected the name of a folder"},
    {"state-dir", "/scratch/run 7", NULL},
    {"state-dir", "", "is empty; expected the name of a folder"},
    {"config", "", "is empty; expected the name of a file"},
    {"stop-signal", "none", NULL},
    {"stop-signal", "USR1", NULL},
    {"stop-signal", "USR2", "is not a choice; expected one of none, TERM, INT, HUP, USR1"},
    {"stop-signal", "KILL", "is not a choice"},
    {"progress", "adaptive", NULL},
    {"progress", "spin", NULL},
    {"progress", "block", NULL},
    {"progress", "poll", "is not a choice; expected one of adaptive, spin, block"},
    {"bind", "auto,verbose,smt:2,reserve:1", NULL},
    {"bind", "near", "has an unknown word; expected auto, gpu, numa, socket, l3, core or none"},
    {"gpu-visible", "one", NULL},
    {"gpu-visible", "mine", "is not a choice; expected one of all, one"},
    {"nics", "eth0,10.0.0.0/8", NULL},
    {"nics", "eth0,eth0", "has a name twice; expected auto, or names of network interfaces"},
    {"rs", "tasks:1,cpus:7,gpus:1,bind:packed:7", NULL},
    {"rs", "tasks:one", "not a whole one; expected KEY:VALUE with commas between"},
    {"log", "loud", "expected one of off, error, warn, info, debug"},
    {"cycle-time", "1ms", "hvd acts when something happens"},
};

START_TEST(values_are_checked)
{
    struct hvd_error err = {""};
    static struct hvd_config config, before;
    memset(&config, 0x5a, sizeof(config));
    memcpy(&before, &config, sizeof(config));
    int rc = option_parse(option_find(cases[_i].option), "--hvd-x", cases[_i].text, &config, &err);
    if (cases[_i].expect == NULL) {
        ck_assert_msg(rc == HVD_OK, "%s", err.text);
        return;
    }
    ck_assert_int_eq(rc, HVD_ERR_INVALID);
    ck_assert_mem_eq(&config, &before, sizeof(config));
    ck_assert_msg(strstr(err.text, cases[_i].expect) != NULL, "%s", err.text);
    ck_assert_msg(strncmp(err.text, "--hvd-x", 7) == 0, "%s", err.text);
}
END_TEST

START_TEST(a_list_keeps_its_order)
{
    static struct hvd_config config;
    ck_assert_int_eq(option_parse(OPTION_OF(backends), "x", "tcp,mpi", &config, NULL), HVD_OK);
    ck_assert_int_eq(option_list_choice(config.backends, 0), BACKEND_TCP);
    ck_assert_int_eq(option_list_choice(config.backends, 1), BACKEND_MPI);
    ck_assert_int_eq(option_list_choice(config.backends, 2), -1);
}
END_TEST

START_TEST(a_stop_signal_has_its_number)
{
    static const struct {
        const char *text;
        int number;
    } signals[] = {{"none", 0}, {"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}, {"USR1", SIGUSR1}};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        static struct hvd_config config;
        ck_assert_int_eq(option_parse(OPTION_OF(stop_signal), "x", signals[i].text, &config, NULL), HVD_OK);
        ck_assert_int_eq(config.stop_signal, signals[i].number);
    }
}
END_TEST

START_TEST(too_long_a_value_is_refused)
{
    char text[OPTION_VALUE_BYTES + 2];
    memset(text, '1', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    ck_assert_int_eq(option_parse(OPTION_OF(fusion_bytes), "x", text, NULL, NULL), HVD_ERR_INVALID);
}
END_TEST

START_TEST(environment_names_are_derived)
{
    char name[64];
    option_env_name(OPTION_OF(start_timeout_us), name);
    ck_assert_str_eq(name, "HVD_START_TIMEOUT");
}
END_TEST

START_TEST(spellings_show_what_may_be_left_out)
{
    char text[64];
    option_spelling(OPTION_OF(fusion_bytes), text, sizeof(text));
    ck_assert_str_eq(text, "--hvd-fusion=SIZE");
    option_spelling(OPTION_OF(autotune), text, sizeof(text));
    ck_assert_str_eq(text, "--hvd-autotune[=HOW]");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("option");
    unit_add_rounds(tcase, every_default_passes_the_parser, 0, option_count);
    unit_add_rounds(tcase, values_are_checked, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tcase, a_list_keeps_its_order);
    tcase_add_test(tcase, a_stop_signal_has_its_number);
    tcase_add_test(tcase, too_long_a_value_is_refused);
    tcase_add_test(tcase, environment_names_are_derived);
    tcase_add_test(tcase, spellings_show_what_may_be_left_out);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("option", fill);
}
