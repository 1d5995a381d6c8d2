/* test_hvdrun_launcher.c: which launcher hvdrun chooses, from where it runs and what is asked for. */
#include "config.h"

#include "temp_folder.h"

#include <string.h>

#include "tools/hvdrun/launcher/facts.h"
#include "tools/hvdrun/restarts.h"

#define MAX_SETTINGS 8

/* In a PATH where all the named programs are; an environment; and what is asked for. */
struct choice {
    const char *programs;
    const char *environment[MAX_SETTINGS];
    struct launch_wish wish;
    enum launcher launcher; /* LAUNCHER_AUTO: it is refused */
    const char *says;       /* in the reason or the sentence */
};

#define SLURM_JOB "SLURM_JOB_ID=12", "SLURM_JOB_NUM_NODES=2", "SLURM_NTASKS=4"
#define OTHER                     \
    {                             \
        LAUNCHER_AUTO, 2, "n2", 0 \
    }
#define HERE                      \
    {                             \
        LAUNCHER_AUTO, 1, NULL, 0 \
    }

static const struct choice choices[] = {
    {"srun jsrun prterun mpirun", {NULL}, {LAUNCHER_AUTO, 0, NULL, 0}, LAUNCHER_LOCAL, "no job"},
    {"srun mpirun",
     {SLURM_JOB},
     {LAUNCHER_AUTO, 0, NULL, 0},
     LAUNCHER_SRUN,
     "Slurm job 12, which has 2 nodes"},
    /* a batch script, and the shell of salloc as a step */
    {"srun", {SLURM_JOB, "SLURM_PROCID=0", "SLURM_STEP_ID=4294967291"}, {0}, LAUNCHER_SRUN, "job 12"},
    {"srun", {SLURM_JOB, "SLURM_PROCID=0", "SLURM_STEP_ID=4294967290"}, {0}, LAUNCHER_SRUN, "job 12"},
    {"srun",
     {SLURM_JOB, "SLURM_STEP_ID=4294967290", "PMIX_NAMESPACE=slurm.pmix.12.4294967290", "PMIX_RANK=0"},
     {0},
     LAUNCHER_SRUN,
     "job 12"},
    /* a task of a step */
    {"srun", {SLURM_JOB, "SLURM_PROCID=0", "SLURM_STEP_ID=0"}, {0}, LAUNCHER_LOCAL, "task that srun started"},
    {"srun", {SLURM_JOB, "SLURM_STEP_ID=0"}, OTHER, LAUNCHER_AUTO, "n2 is another machine"},
    {"mpirun", {"PMIX_NAMESPACE=12345", "PMIX_RANK=0"}, {0}, LAUNCHER_LOCAL, "a launcher with PMIx started"},
    {"srun", {SLURM_JOB, "OMPI_COMM_WORLD_RANK=1"}, {0}, LAUNCHER_LOCAL, "task that mpirun started"},
    {"srun", {SLURM_JOB, "PMIX_NAMESPACE=hvdrun.abc"}, {0}, LAUNCHER_LOCAL, "task that hvdrun started"},
    /* hosts */
    {"srun", {SLURM_JOB}, OTHER, LAUNCHER_SRUN, "job 12"},
    {"srun", {SLURM_JOB}, HERE, LAUNCHER_LOCAL, "hosts are this machine"},
    {"prterun mpirun", {NULL}, OTHER, LAUNCHER_PRTERUN, "n2 is another machine"},
    {"srun mpirun", {NULL}, OTHER, LAUNCHER_MPIRUN, "n2 is another machine"},
    {"srun", {NULL}, OTHER, LAUNCHER_AUTO, "none is in PATH"},
    {"mpirun", {NULL}, HERE, LAUNCHER_LOCAL, "hosts are this machine"},
    /* Slurm without srun */
    {"mpirun", {SLURM_JOB}, {0}, LAUNCHER_AUTO, "no srun in PATH"},
    {"mpirun", {"SLURM_JOB_ID=12", "SLURM_JOB_NUM_NODES=1"}, {0}, LAUNCHER_LOCAL, "has one node"},
    /* LSF */
    {"jsrun mpirun", {"LSB_JOBID=7"}, {0}, LAUNCHER_JSRUN, "LSF job 7"},
    {"jsrun", {"LSB_JOBID=7", "JSM_NAMESPACE_RANK=0"}, {0}, LAUNCHER_LOCAL, "task that jsrun started"},
    {"jsrun", {"LSB_JOBID=7"}, OTHER, LAUNCHER_JSRUN, "LSF job 7"},
    {"mpirun", {"LSB_JOBID=7"}, {LAUNCHER_AUTO, 0, NULL, 3}, LAUNCHER_MPIRUN, "3 hosts and no jsrun"},
    {"mpirun", {"LSB_JOBID=7"}, {LAUNCHER_AUTO, 0, NULL, 1}, LAUNCHER_LOCAL, "one host"},
    {"mpirun", {"LSB_JOBID=7"}, OTHER, LAUNCHER_MPIRUN, "n2 is another machine"},
    {"srun",
     {"LSB_JOBID=7"},
     {LAUNCHER_AUTO, 0, NULL, 3},
     LAUNCHER_AUTO,
     "none of jsrun, prterun and mpirun"},
    {"jsrun", {NULL}, {0}, LAUNCHER_LOCAL, "no job"},
    /* --launcher */
    {"srun", {SLURM_JOB}, {LAUNCHER_LOCAL, 0, NULL, 0}, LAUNCHER_LOCAL, "asks for it"},
    {"srun", {NULL}, {LAUNCHER_SRUN, 0, NULL, 0}, LAUNCHER_SRUN, "asks for it"},
    {"srun", {NULL}, {LAUNCHER_JSRUN, 0, NULL, 0}, LAUNCHER_AUTO, "no jsrun in PATH"},
    {"srun", {NULL}, {LAUNCHER_LOCAL, 2, "n2", 0}, LAUNCHER_AUTO, "n2 is another one"},
};

/* A folder with the programs, for PATH. */
static void make_programs(const char *programs)
{
    char path[256];
    while (*programs != 0) {
        int length = (int)strcspn(programs, " ");
        snprintf(path, sizeof(path), "%s/%.*s", folder, length, programs);
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        fclose(file);
        ck_assert_int_eq(chmod(path, 0755), 0);
        programs += length + (programs[length] == ' ');
    }
}

START_TEST(the_launcher_fits)
{
    const struct choice *choice = &choices[_i];
    char path[80];
    char *environment[MAX_SETTINGS + 2] = {path};
    struct launch_facts facts;
    struct launch_choice chosen = {LAUNCHER_AUTO, ""};
    struct hvd_error err = {""};
    make_programs(choice->programs);
    snprintf(path, sizeof(path), "PATH=%s", folder);
    for (int i = 0; choice->environment[i] != NULL; i++)
        environment[i + 1] = (char *)choice->environment[i];
    launch_facts_read(&facts, environment);
    int status = launcher_choose(&facts, &choice->wish, &chosen, &err);
    ck_assert_msg((status == HVD_OK) == (choice->launcher != LAUNCHER_AUTO), "%s%s", chosen.why, err.text);
    ck_assert_str_eq(launcher_name(chosen.launcher), launcher_name(choice->launcher));
    ck_assert_msg(strstr(status == HVD_OK ? chosen.why : err.text, choice->says) != NULL,
                  "'%s' is not in: %s%s", choice->says, chosen.why, err.text);
}
END_TEST

/* The first of several tasks warns, where it starts ranks itself. */
static const struct {
    const char *environment[MAX_SETTINGS];
    enum launcher launcher;
    const char *says; /* NULL: nothing */
} warnings[] = {
    {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"},
     LAUNCHER_LOCAL,
     "mpirun has started 2 tasks, and each"},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}, LAUNCHER_LOCAL, NULL},
    {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"}, LAUNCHER_LOCAL, NULL},
    {{"OMPI_COMM_WORLD_RANK=0"}, LAUNCHER_LOCAL, NULL},
    {{SLURM_JOB, "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=6"},
     LAUNCHER_LOCAL,
     "srun has started 6"},
    {{SLURM_JOB, "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=6"}, LAUNCHER_SRUN, NULL},
    {{SLURM_JOB, "SLURM_STEP_ID=4294967291", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=6"},
     LAUNCHER_LOCAL,
     NULL},
    {{"PMI_RANK=0", "PMI_SIZE=3"}, LAUNCHER_LOCAL, "mpiexec has started 3"},
    {{"JSM_NAMESPACE_RANK=0", "JSM_NAMESPACE_SIZE=3"}, LAUNCHER_LOCAL, "jsrun has started 3"},
    {{"PMIX_NAMESPACE=prterun-n1-7@1", "PMIX_RANK=0"}, LAUNCHER_LOCAL, NULL},
    {{"PMIX_NAMESPACE=prterun-n1-7@1", "PMIX_RANK=1"}, LAUNCHER_LOCAL, "prterun has started several tasks"},
    {{"PMIX_NAMESPACE=prterun-n1-7@1", "PMIX_RANK=2"}, LAUNCHER_LOCAL, NULL},
    {{NULL}, LAUNCHER_LOCAL, NULL}};

START_TEST(the_first_of_several_tasks_warns)
{
    const struct launch_choice choice = {warnings[_i].launcher, ""};
    struct launch_facts facts;
    struct hvd_error text = {""};
    launch_facts_read(&facts, (char *const *)warnings[_i].environment);
    bool warns = launcher_warns(&facts, &choice, &text);
    ck_assert_msg(warns == (warnings[_i].says != NULL), "%s", text.text);
    if (warns)
        ck_assert_msg(strstr(text.text, warnings[_i].says) != NULL, "%s", text.text);
}
END_TEST

START_TEST(names_are_those_of_the_option)
{
    enum launcher launcher = LAUNCHER_AUTO;
    for (int i = 0; i < LAUNCHER_COUNT; i++) {
        ck_assert(launcher_parse(launcher_name((enum launcher)i), &launcher));
        ck_assert_int_eq(launcher, i);
    }
    ck_assert(!launcher_parse("ssh", &launcher));
    ck_assert(!launcher_parse("", &launcher));
}
END_TEST

START_TEST(a_launcher_is_asked)
{
    static char text[8];
    ck_assert_int_eq(launch_facts_ask("echo", "yes", text, sizeof(text)), 0);
    ck_assert_str_eq(text, "yes\n");
    ck_assert_int_eq(launch_facts_ask("echo", "more than there is room", text, sizeof(text)), 0);
    ck_assert_str_eq(text, "more th");
    ck_assert_int_eq(launch_facts_ask("ls", "--no-such-option", text, sizeof(text)), 0); /* of stderr */
    ck_assert_int_eq(launch_facts_ask("cat", "-", text, sizeof(text)), -1); /* its input is empty */
    ck_assert_int_eq(launch_facts_ask("/nonexistent", "x", text, sizeof(text)), -1);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(delays_grow_to_a_minute)
{
    static const int delays_s[] = {1, 2, 4, 8, 16, 32, 60, 60};
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(restart_delay_s(i + 1), delays_s[i]);
    ck_assert_int_eq(restart_delay_s(1000), 60);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("launcher");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, NULL, folder_empty);
    tcase_add_loop_test(tcase, the_launcher_fits, 0, sizeof(choices) / sizeof(choices[0]));
    tcase_add_loop_test(tcase, the_first_of_several_tasks_warns, 0, sizeof(warnings) / sizeof(warnings[0]));
    tcase_add_test(tcase, names_are_those_of_the_option);
    tcase_add_test(tcase, a_launcher_is_asked);
    tcase_add_test(tcase, delays_grow_to_a_minute);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_launcher", fill);
}
