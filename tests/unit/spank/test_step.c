/* test_step.c: the options and what becomes of them on a node; the test stands in for Slurm. */
#include "config.h"

#ifndef HAVE_SLURM

#include <stdio.h>

int main(void)
{
    puts("1..0 # SKIP built without Slurm's header slurm/spank.h");
    return 0;
}

#else

#include "fake_slurm.h"

#include <sys/wait.h>
#include <unistd.h>

#include "spank/stepd.h"

static const struct site no_site;

START_TEST(every_row_is_registered_by_its_name)
{
    options_register(NULL);
    ck_assert_int_eq(slurm.registered, option_count + 3);
    ck_assert_str_eq(slurm.names[option_count], "hvd");
    ck_assert_int_eq(slurm.options[option_count].has_arg, 2);
    ck_assert_str_eq(slurm.names[option_count + 1], "hvd-min");
    ck_assert_int_eq(slurm.options[option_count + 1].has_arg, 1);
    ck_assert_str_eq(slurm.names[option_count + 2], "hvd-spares");
    ck_assert_int_eq(slurm.options[option_count + 2].has_arg, 1);
    for (int i = 0; i < option_count; i++) {
        ck_assert_int_eq(strncmp(slurm.names[i], "hvd-", 4), 0);
        ck_assert_str_eq(slurm.names[i] + 4, option_table[i].name);
        ck_assert_int_eq(slurm.options[i].val, i);
        bool bare = option_table[i].retired == NULL && option_table[i].type->bare != NULL;
        ck_assert_int_eq(slurm.options[i].has_arg, bare ? 2 : 1);
    }
}
END_TEST

START_TEST(a_failed_registration_is_told_and_the_rest_goes_on)
{
    slurm.register_answer = ESPANK_NOSPACE;
    options_register(NULL);
    ck_assert_int_eq(slurm.registered, option_count + 3);
    ck_assert_int_eq(slurm.errors, option_count + 3);
    ck_assert_ptr_nonnull(strstr(slurm.last, "--hvd-spares cannot be used"));
}
END_TEST

START_TEST(min_and_spares_are_numbers_of_ranks)
{
    static const char *const refused[] = {"0", "-1", "x", "", "1000001", "3x"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        ck_assert_int_eq(give_min(refused[i], 0), -1);
        ck_assert_ptr_nonnull(strstr(slurm.last, "--hvd-min="));
        ck_assert_int_eq(give_spares(refused[i], 0), -1);
        ck_assert_ptr_nonnull(strstr(slurm.last, "--hvd-spares="));
        ck_assert_ptr_nonnull(strstr(slurm.last, "expected a number of ranks between 1 and 1000000"));
    }
    ck_assert_int_eq(options_fewest(), 0);
    ck_assert_int_eq(options_spares(), 0);
    ck_assert_int_eq(give_min("8", 0), 0);
    ck_assert_int_eq(options_fewest(), 8);
    ck_assert_int_eq(give_spares("2", 0), 0);
    ck_assert_int_eq(options_spares(), 2);
    ck_assert(options_use_hvd(&no_site, slurm.environment));
}
END_TEST

/* Each task of an elastic step asks the driver, at srun's address, for its place. */
START_TEST(a_task_of_an_elastic_step_is_a_newcomer)
{
    user_setenv("SLURM_HVD_EPOCHS", "4711");
    user_setenv("SLURM_SRUN_COMM_HOST", "10.0.0.9");
    user_setenv("SLURM_PROCID", "3");
    user_setenv("SLURM_STEP_NUM_TASKS", "6");
    give_min("2", 1);
    stepd_user_init(NULL, &no_site);
    ck_assert_int_eq(stepd_task_init(NULL, &no_site), 0);
    ck_assert_str_eq(variable("HVD_EPOCHS"), "10.0.0.9 4711 3 6 newcomer");
    ck_assert_ptr_null(variable("SLURM_HVD_EPOCHS"));
}
END_TEST

START_TEST(a_task_of_another_step_is_none)
{
    user_setenv("HVD_EPOCHS", "10.0.0.9 4711 3 6 newcomer"); /* of an elastic step around it */
    ck_assert_int_eq(stepd_task_init(NULL, &no_site), 0);
    ck_assert_ptr_null(variable("HVD_EPOCHS"));
}
END_TEST

START_TEST(pmix_and_an_elastic_step_do_not_go_together)
{
    user_setenv("SLURM_HVD_EPOCHS", "4711");
    user_setenv("SLURM_SRUN_COMM_HOST", "10.0.0.9");
    user_setenv("SLURM_PROCID", "3");
    user_setenv("SLURM_STEP_NUM_TASKS", "6");
    user_setenv("PMIX_NAMESPACE", "slurm.pmix.1.0");
    ck_assert_int_eq(stepd_task_init(NULL, &no_site), -1);
    ck_assert_ptr_nonnull(strstr(slurm.last, "--hvd-min needs --mpi=none"));
    ck_assert_ptr_null(variable("HVD_EPOCHS"));
}
END_TEST

START_TEST(srun_refuses_a_bad_value_with_a_sentence)
{
    ck_assert_int_eq(give_option("fusion", "64Q", 0), -1);
    ck_assert_int_eq(slurm.errors, 1);
    ck_assert_ptr_nonnull(
        strstr(slurm.last, "--hvd-fusion=64Q: the value has an unknown unit; expected bytes"));
    ck_assert_int_eq(give_option("cycle-time", "1ms", 0), -1);
    ck_assert_ptr_nonnull(strstr(slurm.last, "remove it"));
    ck_assert_int_eq(give_option("config", "a;b", 0), -1);
    ck_assert_ptr_nonnull(strstr(slurm.last, "--hvd-config=a;b: the value holds a ';'"));
}
END_TEST

START_TEST(a_switch_without_a_value_is_on)
{
    struct site site = {.list = ""};
    ck_assert_int_eq(give_option("autotune", NULL, 0), 0);
    ck_assert_int_eq(give_option("autotune", NULL, 1), 0);
    ck_assert_int_eq(give_option("encrypt", "(null)", 1), 0); /* as Slurm 22.05 hands it down */
    ck_assert_int_eq(stepd_task_init(NULL, &site), 0);
    ck_assert_str_eq(variable("HVD_CLI"), "encrypt=on;autotune=on");
}
END_TEST

START_TEST(too_long_a_value_is_refused_before_it_travels)
{
    static char value[OPTION_VALUE_BYTES + 2];
    memset(value, 'a', sizeof(value) - 1);
    ck_assert_int_eq(give_option("config", value, 0), -1);
    value[OPTION_VALUE_BYTES] = 0;
    ck_assert_int_eq(give_option("config", value, 0), 0);
}
END_TEST

START_TEST(a_callback_that_is_not_ours_is_refused)
{
    options_register(NULL);
    ck_assert_int_eq(slurm.options[0].cb(option_count, "1", 0), -1);
    ck_assert_int_eq(slurm.options[0].cb(-1, "1", 1), -1);
    ck_assert_int_eq(slurm.options[0].cb(0, NULL, 1), -1);
}
END_TEST

START_TEST(values_reach_the_task)
{
    struct site site = {.list = "lease=9s"};
    ck_assert_int_eq(give_option("log", "info", 1), 0);
    ck_assert_int_eq(give_option("fusion", "32M", 1), 0);
    ck_assert_int_eq(give_option("fusion", "32M", 1), 0);
    ck_assert_int_eq(give_option("fusion", "16M", 1), 0);
    ck_assert_int_eq(stepd_task_init(NULL, &site), 0);
    ck_assert_str_eq(variable("HVD_CLI"), "fusion=16M;log=info");
    ck_assert_str_eq(variable("HVD_SITE"), "lease=9s");
    ck_assert_int_eq(slurm.errors, 0);
}
END_TEST

static const struct {
    const char *drawn, *present, *after;
} secrets[] = {
    {"slurm:2", NULL, "slurm:2"},
    {"slurm:2", "slurm:1", "slurm:2"},  /* of an outer step */
    {"slurm:2", "hvdrun:1", "slurm:2"}, /* of a hvdrun around this step */
    {"slurm:2", "the user's own", "the user's own"},
    {"slurm:2",
     "the user's own, which is longer than any secret that a launcher draws for the ranks of a job, and more",
     "the user's own, which is longer than any secret that a launcher draws for the ranks of a job, and "
     "more"},
    {NULL, "slurm:1", "slurm:1"},
    {NULL, NULL, NULL},
};

START_TEST(the_secret_reaches_the_task)
{
    if (secrets[_i].drawn != NULL)
        user_setenv("SLURM_HVD_JOB_KEY", secrets[_i].drawn);
    if (secrets[_i].present != NULL)
        user_setenv("HVD_JOB_KEY", secrets[_i].present);
    ck_assert_int_eq(stepd_task_init(NULL, &no_site), 0);
    ck_assert_ptr_null(variable("SLURM_HVD_JOB_KEY"));
    if (secrets[_i].after != NULL)
        ck_assert_str_eq(variable("HVD_JOB_KEY"), secrets[_i].after);
    else
        ck_assert_ptr_null(variable("HVD_JOB_KEY"));
}
END_TEST

START_TEST(a_plain_step_is_left_alone)
{
    struct site site = {.list = ""};
    slurm.setenv_answer = ESPANK_ERROR; /* not even tried */
    stepd_user_init(NULL, &no_site);
    ck_assert_int_eq(stepd_task_init(NULL, &site), 0);
    slurm.status = 9;
    stepd_task_exit(NULL);
    ck_assert_int_eq(slurm.errors + slurm.lines, 0);
}
END_TEST

START_TEST(a_value_refused_on_the_node_fails_the_task_not_the_node)
{
    struct site site = {.list = ""};
    ck_assert_int_eq(give_option("log", "loud", 1), 0);
    ck_assert_int_eq(give_option("fusion", "64Q", 1), 0);
    ck_assert_int_eq(give_option("lease", "9s", 1), 0);
    ck_assert_int_eq(slurm.errors, 0);
    ck_assert_int_eq(stepd_task_init(NULL, &site), -1);
    ck_assert_ptr_null(variable("HVD_CLI"));
    ck_assert_int_eq(slurm.errors, 1);
    ck_assert_ptr_nonnull(strstr(slurm.last, "--hvd-log=loud"));
}
END_TEST

START_TEST(a_failing_setenv_fails_the_task_with_a_sentence)
{
    struct site site = {.list = "lease=9s"};
    slurm.setenv_answer = ESPANK_ERROR;
    ck_assert_int_eq(stepd_task_init(NULL, &site), -1);
    ck_assert_ptr_nonnull(strstr(slurm.last, "HVD_SITE cannot be put into the environment"));
}
END_TEST

START_TEST(batch_scripts_get_the_options_and_the_extern_step_does_not)
{
    struct site site = {.list = "lease=9s"};
    give_option("fusion", "16M", 1);
    slurm.step_id = SLURM_EXTERN_CONT;
    ck_assert_int_eq(stepd_task_init(NULL, &site), 0);
    ck_assert_ptr_null(variable("HVD_CLI"));
    ck_assert_ptr_null(variable("HVD_SITE"));
    slurm.step_id = SLURM_BATCH_SCRIPT;
    ck_assert_int_eq(stepd_task_init(NULL, &site), 0);
    ck_assert_str_eq(variable("HVD_CLI"), "fusion=16M");
    slurm.status = 9;
    stepd_task_exit(NULL);
    ck_assert_int_eq(slurm.lines, 0);
}
END_TEST

START_TEST(the_first_task_that_a_signal_ends_is_named)
{
    char host[65] = "";
    char expect[160];
    gethostname(host, sizeof(host) - 1);
    host[strcspn(host, ".")] = 0;
    snprintf(expect, sizeof(expect), "hvd: rank 3 (%s) was killed by signal 9 (Killed)", host);
    give_option("fusion", "16M", 1);
    stepd_user_init(NULL, &no_site);
    slurm.task = 2;
    slurm.status = 1 << 8;
    stepd_task_exit(NULL);
    ck_assert_int_eq(slurm.lines, 0);
    slurm.task = 3;
    slurm.status = 9;
    stepd_task_exit(NULL);
    ck_assert_int_eq(slurm.lines, 1);
    ck_assert_str_eq(slurm.last, expect);
    slurm.task = 4;
    stepd_task_exit(NULL);
    ck_assert_int_eq(slurm.lines, 1);
}
END_TEST

/* As in Slurm: task_init runs in a forked child, task_exit in its parent. */
START_TEST(a_rank_counts_from_the_first_component)
{
    struct site site = {.list = ""};
    give_option("fusion", "16M", 1);
    stepd_user_init(NULL, &no_site);
    slurm.task = 1;
    pid_t child = fork();
    if (child == 0) {
        user_setenv("SLURM_PROCID", "7");
        stepd_task_init(NULL, &site);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &slurm.status, 0), child);
    slurm.status = 11;
    stepd_task_exit(NULL);
    ck_assert_msg(strstr(slurm.last, "rank 7 (") != NULL, "%s", slurm.last);
    ck_assert_msg(strstr(slurm.last, "signal 11 (Segmentation fault)") != NULL, "%s", slurm.last);
}
END_TEST

static const char *const odd_ranks[] = {"0", "-1", "x", "", "99999999999", "99999999999999999999999999"};

START_TEST(an_odd_rank_is_not_believed)
{
    struct site site = {.list = ""};
    give_option("fusion", "16M", 1);
    stepd_user_init(NULL, &no_site);
    slurm.task = 1;
    user_setenv("SLURM_PROCID", odd_ranks[_i]);
    ck_assert_int_eq(stepd_task_init(NULL, &site), 0);
    slurm.status = 9;
    stepd_task_exit(NULL);
    ck_assert_msg(strstr(slurm.last, "rank 1 (") != NULL, "%s", slurm.last);
}
END_TEST

static bool uses(const char *variable)
{
    const char *environment[] = {"PATH=/bin", variable, NULL};
    return options_use_hvd(&no_site, (char *const *)environment);
}

START_TEST(a_step_uses_hvd_if_anybody_says_so)
{
    const struct site all = {.all_steps = true};
    char *const none[] = {NULL};
    ck_assert(!uses(NULL));
    ck_assert(!uses("HVD_PLACED=srun"));
    ck_assert(!uses("HOROVOD_FUSION_THRESHOLD=1"));
    ck_assert(uses("HVD_FUSION=64M"));
    ck_assert(options_use_hvd(&all, none));
    ck_assert_int_eq(give_switch(NULL, 1), 0);
    ck_assert(uses(NULL));
    ck_assert_int_eq(give_switch("off", 1), 0);
    ck_assert(!uses("HVD_FUSION=64M"));
    ck_assert(!options_use_hvd(&all, none));
    ck_assert_int_eq(give_option("fusion", "64M", 1), 0);
    ck_assert(!uses(NULL));
    ck_assert_int_eq(give_switch("on", 1), 0);
    ck_assert(uses(NULL));
}
END_TEST

START_TEST(the_switch_shows_places_and_takes_three_words)
{
    char list[CONFIG_LIST_BYTES + 1] = "";
    struct hvd_error err = {""};
    ck_assert_int_eq(give_switch("verbose", 0), 0);
    ck_assert_int_eq(give_switch("loud", 0), -1);
    ck_assert_str_eq(slurm.last, "--hvd=loud: expected on, off or verbose");
    ck_assert_int_eq(give_switch("verbose", 1), 0);
    ck_assert_int_eq(options_list(list, &err), HVD_OK);
    ck_assert_str_eq(list, "bind=verbose");
    ck_assert_int_eq(give_option("bind", "core", 1), 0);
    ck_assert_int_eq(options_list(list, &err), HVD_OK);
    ck_assert_str_eq(list, "bind=core");
    ck_assert_int_eq(give_switch("off", 1), 0);
    ck_assert_int_eq(options_list(list, &err), HVD_OK);
    ck_assert_str_eq(list, "");
    ck_assert_int_eq(give_switch("loud", 1), 0);
    ck_assert_int_eq(options_list(list, &err), HVD_ERR_INVALID);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("step");
    tcase_add_test(tcase, every_row_is_registered_by_its_name);
    tcase_add_test(tcase, min_and_spares_are_numbers_of_ranks);
    tcase_add_test(tcase, a_task_of_an_elastic_step_is_a_newcomer);
    tcase_add_test(tcase, a_task_of_another_step_is_none);
    tcase_add_test(tcase, pmix_and_an_elastic_step_do_not_go_together);
    tcase_add_test(tcase, a_step_uses_hvd_if_anybody_says_so);
    tcase_add_test(tcase, the_switch_shows_places_and_takes_three_words);
    tcase_add_test(tcase, a_failed_registration_is_told_and_the_rest_goes_on);
    tcase_add_test(tcase, srun_refuses_a_bad_value_with_a_sentence);
    tcase_add_test(tcase, a_switch_without_a_value_is_on);
    tcase_add_test(tcase, too_long_a_value_is_refused_before_it_travels);
    tcase_add_test(tcase, a_callback_that_is_not_ours_is_refused);
    tcase_add_test(tcase, values_reach_the_task);
    tcase_add_loop_test(tcase, the_secret_reaches_the_task, 0, sizeof(secrets) / sizeof(secrets[0]));
    tcase_add_test(tcase, a_plain_step_is_left_alone);
    tcase_add_test(tcase, a_value_refused_on_the_node_fails_the_task_not_the_node);
    tcase_add_test(tcase, a_failing_setenv_fails_the_task_with_a_sentence);
    tcase_add_test(tcase, batch_scripts_get_the_options_and_the_extern_step_does_not);
    tcase_add_test(tcase, the_first_task_that_a_signal_ends_is_named);
    tcase_add_test(tcase, a_rank_counts_from_the_first_component);
    tcase_add_loop_test(tcase, an_odd_rank_is_not_believed, 0, sizeof(odd_ranks) / sizeof(odd_ranks[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("step", fill);
}

#endif
