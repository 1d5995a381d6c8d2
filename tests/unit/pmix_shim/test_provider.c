/* test_provider.c: which provider an environment asks for, and that one rank is never assumed where there are
 * more. */
#include "unit.h"

#include <string.h>

#include "pmix_shim/nested.h"
#include "pmix_shim/provider.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))
#define VARIABLES    6

static void make_environment(const char *const *variables, char **environment)
{
    int count = 0;
    while (count < VARIABLES && variables[count] != NULL) {
        environment[count] = (char *)variables[count];
        count++;
    }
    environment[count] = NULL;
}

static const struct {
    const char *variables[VARIABLES];
    enum provider provider;
    const char *expect; /* part of the sentence; NULL: accepted */
} choices[] = {
    {{NULL}, PROVIDER_SINGLETON, NULL},
    {{"HOME=/root", "RANK=3"}, PROVIDER_SINGLETON, NULL},
    {{"PMIX_NAMESPACE=x", "PMIX_RANK=0"}, PROVIDER_PMIX, NULL},
    {{"PMIX_NAMESPACE=x", "PMIX_RANK=0", "WORLD_SIZE=2"}, PROVIDER_PMIX, NULL},
    {{"PMIX_NAMESPACE=x", "PMIX_RANK=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"}, PROVIDER_PMIX, NULL},
    {{"PMIX_NAMESPACE=x"}, 0, "PMIX_NAMESPACE is set, but PMIX_RANK is not"},
    {{"PMIX_RANK=1"}, 0, "PMIX_RANK is set, but PMIX_NAMESPACE is not"},
    {{"WORLD_SIZE=2"}, PROVIDER_ENV, NULL},
    {{"WORLD_SIZE=2", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=2"}, PROVIDER_ENV, NULL},
    {{"WORLD_SIZE=1"}, PROVIDER_SINGLETON, NULL},
    {{"WORLD_SIZE=0"}, PROVIDER_ENV, NULL},
    {{"WORLD_SIZE=two"}, 0, "WORLD_SIZE=two: the value does not begin with a digit"},
    {{"WORLD_SIZE="}, 0, "WORLD_SIZE=: the value is empty"},
    {{"WORLD_SIZE=-2"}, 0, "WORLD_SIZE=-2: "},
    {{"WORLD_SIZE=99999999999999999999"}, 0, "is too large"},
    /* inside a step of Slurm */
    {{"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"}, 0, "use srun --hvd with the plug-in, or srun --mpi=pmix"},
    {{"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"},
     0,
     "SLURM_STEP_NUM_TASKS=4 says that the job has 4 ranks"},
    {{"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"}, 0, "unset SLURM_STEP_NUM_TASKS where one rank is meant"},
    {{"SLURM_STEP_ID=7", "SLURM_STEP_NUM_TASKS=4", "WORLD_SIZE=1"}, 0, "SLURM_STEP_NUM_TASKS=4"},
    {{"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1"}, PROVIDER_SINGLETON, NULL},
    {{"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=x"}, 0, "SLURM_STEP_NUM_TASKS=x"},
    {{"SLURM_STEP_ID=0"}, PROVIDER_SINGLETON, NULL},
    /* in the batch script, an interactive shell, the extern step; in a job but no step */
    {{"SLURM_STEP_ID=4294967291", "SLURM_STEP_NUM_TASKS=4"}, PROVIDER_SINGLETON, NULL},
    {{"SLURM_STEP_ID=4294967290", "SLURM_STEP_NUM_TASKS=4"}, PROVIDER_SINGLETON, NULL},
    {{"SLURM_STEP_ID=4294967292", "SLURM_STEP_NUM_TASKS=4"}, PROVIDER_SINGLETON, NULL},
    {{"SLURM_STEP_ID=batch", "SLURM_STEP_NUM_TASKS=4"}, PROVIDER_SINGLETON, NULL},
    {{"SLURM_JOB_ID=9", "SLURM_NTASKS=4"}, PROVIDER_SINGLETON, NULL},
    {{"SLURM_STEP_NUM_TASKS=4"}, PROVIDER_SINGLETON, NULL},
    /* under other launchers */
    {{"OMPI_COMM_WORLD_SIZE=4"}, 0, "OMPI_COMM_WORLD_SIZE=4 says that the job has 4 ranks"},
    {{"OMPI_COMM_WORLD_SIZE=1"}, PROVIDER_SINGLETON, NULL},
    {{"PMI_FD=6", "PMI_SIZE=8", "PMI_RANK=0"}, PROVIDER_PMI, NULL},
    {{"PMI_FD=6", "PMI_SIZE=8", "PMI_RANK=0", "WORLD_SIZE=8"}, PROVIDER_PMI, NULL},
    {{"PMI_FD=6", "PMIX_NAMESPACE=x", "PMIX_RANK=0"}, PROVIDER_PMIX, NULL},
    {{"PMI_SIZE=8", "PMI_RANK=0"}, 0, "the launcher's PMI connection is gone"},
    {{"PMI_SIZE=1"}, PROVIDER_SINGLETON, NULL},
    /* jsrun's tasks, with PMIx and where it was taken away */
    {{"PMIX_NAMESPACE=7", "PMIX_RANK=1", "JSM_NAMESPACE_SIZE=2", "JSM_NAMESPACE_RANK=1"},
     PROVIDER_PMIX,
     NULL},
    {{"JSM_NAMESPACE_SIZE=2"}, 0, "JSM_NAMESPACE_SIZE=2"},
    {{"JSM_NAMESPACE_SIZE=2", "MASTER_ADDR=n1"}, PROVIDER_ENV, NULL},
    {{"JSM_NAMESPACE_SIZE=x", "MASTER_ADDR=n1"}, 0, "JSM_NAMESPACE_SIZE=x"},
    {{"JSM_NAMESPACE_SIZE=1", "MASTER_ADDR=n1"}, PROVIDER_SINGLETON, NULL},
    {{"JSM_NAMESPACE_SIZE=4", "MASTER_ADDR=n1", "WORLD_SIZE=1"}, 0, "JSM_NAMESPACE_SIZE=4"},
    /* names that only begin alike */
    {{"WORLD_SIZES=4", "PMI_SIZED=3", "XPMI_SIZE=2"}, PROVIDER_SINGLETON, NULL},
};

START_TEST(the_environment_decides)
{
    char *environment[VARIABLES + 1];
    struct hvd_error err = {""};
    enum provider provider = (enum provider)77;
    make_environment(choices[_i].variables, environment);
    int rc = provider_choose(environment, 0, &provider, &err);
    if (choices[_i].expect == NULL) {
        ck_assert_msg(rc == HVD_OK, "%s", err.text);
        ck_assert_int_eq(provider, choices[_i].provider);
        return;
    }
    ck_assert_int_eq(rc, HVD_ERR_INVALID);
    ck_assert_int_eq((int)provider, 77);
    ck_assert_msg(strstr(err.text, choices[_i].expect) != NULL, "%s", err.text);
}
END_TEST

static const struct {
    const char *variables[VARIABLES];
    enum provider provider;
    const char *expect;
} alone[] = {
    {{"PMIX_NAMESPACE=slurm.pmix.1.0", "PMIX_RANK=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1"},
     PROVIDER_PMIX,
     NULL},
    {{"PMIX_NAMESPACE=slurm.pmix.1.0", "PMIX_RANK=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"},
     PROVIDER_PMIX,
     "SLURM_STEP_NUM_TASKS=4"},
    /* hvdrun or mpirun of one rank inside a larger step */
    {{"PMIX_NAMESPACE=other", "PMIX_RANK=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"},
     PROVIDER_PMIX,
     NULL},
    {{"PMIX_NAMESPACE=other", "PMIX_RANK=0", "OMPI_COMM_WORLD_SIZE=4"},
     PROVIDER_PMIX,
     "OMPI_COMM_WORLD_SIZE=4"},
    {{"PMIX_NAMESPACE=other", "PMIX_RANK=0", "WORLD_SIZE=4"}, PROVIDER_PMIX, "another launcher's PMIx"},
    {{"PMIX_NAMESPACE=other", "PMIX_RANK=0", "WORLD_SIZE=1"}, PROVIDER_PMIX, NULL},
    {{"PMI_FD=6", "PMI_JOBID=1.0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"},
     PROVIDER_PMI,
     "SLURM_STEP_NUM_TASKS=4"},
    /* mpiexec of one rank inside a larger step */
    {{"PMI_FD=6", "PMI_SIZE=1", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"}, PROVIDER_PMI, NULL},
};

static const struct {
    const char *variables[VARIABLES];
    const char *warning, *error; /* parts of the sentence; NULL: there is none */
} scripts[] = {
    {{"LSB_JOBID=1", "LSB_MCPU_HOSTS=batch 1 n1 42"}, "the LSF job has 2 hosts", NULL},
    {{"LSB_JOBID=1", "LSB_MCPU_HOSTS= batch 1  n1 42 ", "HVD_CLI=cache=3"}, NULL, "jsrun or hvdrun"},
    {{"LSB_JOBID=1", "LSB_MCPU_HOSTS=batch 1 n1 42", "JSM_NAMESPACE_RANK=0"}, NULL, NULL},
    {{"LSB_JOBID=1", "LSB_MCPU_HOSTS=n1 42"}, NULL, NULL},
    {{"LSB_MCPU_HOSTS=batch 1 n1 42"}, NULL, NULL},
    {{"SLURM_JOB_ID=7", "SLURM_NTASKS=4"},
     "rank 0 of 1, but the Slurm job has 4 tasks: start the program with srun",
     NULL},
    {{"SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_STEP_ID=4294967291"}, "has 4 tasks", NULL},
    {{"SLURM_JOB_ID=7", "SLURM_NTASKS=4", "HVD_CLI=fusion=2M"},
     NULL,
     "has 4 tasks and was given options of hvd: start"},
    {{"SLURM_JOB_ID=7", "SLURM_NTASKS=4", "HVD_CLI="}, "has 4 tasks", NULL},
    {{"SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd=(null)"},
     NULL,
     "has 4 tasks and was given options of hvd: start"},
    {{"SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd=off"},
     "has 4 tasks",
     NULL},
    {{"SLURM_JOB_ID=7", "SLURM_NTASKS=four"}, NULL, "SLURM_NTASKS=four"},
    {{"SLURM_JOB_ID=7", "SLURM_NTASKS=1", "HVD_CLI=fusion=2M"}, NULL, NULL},
    {{"SLURM_JOB_ID=7", "HVD_CLI=fusion=2M"}, NULL, NULL},
    {{"SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1"}, NULL, NULL},
    {{"SLURM_NTASKS=4"}, NULL, NULL},
};

START_TEST(a_forgotten_srun_is_told)
{
    char *environment[VARIABLES + 1];
    struct hvd_error err = {""}, warning = {"before"};
    make_environment(scripts[_i].variables, environment);
    int rc = provider_check_launcher(environment, &warning, &err);
    ck_assert_int_eq(rc, scripts[_i].error == NULL ? HVD_OK : HVD_ERR_INVALID);
    if (scripts[_i].error != NULL)
        ck_assert_msg(strstr(err.text, scripts[_i].error) != NULL, "%s", err.text);
    if (scripts[_i].warning != NULL)
        ck_assert_msg(strstr(warning.text, scripts[_i].warning) != NULL, "%s", warning.text);
    else
        ck_assert_str_eq(warning.text, "");
}
END_TEST

START_TEST(one_rank_must_agree_with_the_environment)
{
    char *environment[VARIABLES + 1];
    struct hvd_error err = {""};
    make_environment(alone[_i].variables, environment);
    int rc = provider_check_single(environment, alone[_i].provider, &err);
    if (alone[_i].expect == NULL) {
        ck_assert_msg(rc == HVD_OK, "%s", err.text);
        return;
    }
    ck_assert_int_eq(rc, HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, alone[_i].expect) != NULL, "%s", err.text);
}
END_TEST

static const struct {
    const char *variable;
    int64_t epoch; /* -1: refused */
} epochs[] = {{"X=1", 0},
              {"HVD_EPOCH=0", 0},
              {"HVD_EPOCH=12", 12},
              {"HVD_EPOCH=4294967295", UINT32_MAX},
              {"HVD_EPOCH=-1", -1},
              {"HVD_EPOCH=4294967296", -1},
              {"HVD_EPOCH=", -1},
              {"HVD_EPOCH=1x", -1},
              {"TORCHELASTIC_RESTART_COUNT=3", 3}};

/* hvdrun sets both, and counts the restarts of one rank there. */
START_TEST(restarts_of_hvdrun_are_no_epochs)
{
    static char count[] = "TORCHELASTIC_RESTART_COUNT=3", restart[] = "HVD_RESTART=3";
    char *environment[] = {count, restart, NULL};
    struct hvd_error err;
    uint32_t epoch = 77;
    ck_assert_int_eq(provider_read_epoch(environment, &epoch, &err), HVD_OK);
    ck_assert_uint_eq(epoch, 0);
}
END_TEST

START_TEST(the_epoch_is_read)
{
    char *environment[] = {(char *)epochs[_i].variable, NULL};
    struct hvd_error err = {""};
    uint32_t epoch = 77;
    int rc = provider_read_epoch(environment, &epoch, &err);
    if (epochs[_i].epoch >= 0) {
        ck_assert_int_eq(rc, HVD_OK);
        ck_assert_uint_eq(epoch, (uint64_t)epochs[_i].epoch);
    } else {
        ck_assert_int_eq(rc, HVD_ERR_INVALID);
        ck_assert_uint_eq(epoch, 77);
        ck_assert_msg(strstr(err.text, "HVD_EPOCH=") != NULL, "%s", err.text);
    }
}
END_TEST

/* Where launchers are nested: which providers ask, which of them are further out, and which one counts */
static const struct {
    const char *variables[VARIABLES], *above[VARIABLES];
    unsigned outer;
    enum provider provider;
} nestings[] = {
    /* mpiexec inside hvdrun, and hvdrun's kind inside mpiexec */
    {{"PMIX_NAMESPACE=x", "PMIX_RANK=0", "PMI_FD=6"},
     {"PMIX_NAMESPACE=x", "PMIX_RANK=0"},
     NESTED_BIT(PROVIDER_PMIX),
     PROVIDER_PMI},
    {{"PMIX_NAMESPACE=x", "PMIX_RANK=0", "PMI_FD=6"}, {"PMI_FD=6"}, NESTED_BIT(PROVIDER_PMI), PROVIDER_PMIX},
    /* torchrun inside hvdrun, which sets torchrun's variables too */
    {{"PMIX_NAMESPACE=x", "PMIX_RANK=0", "TORCHELASTIC_RUN_ID=none", "WORLD_SIZE=2"},
     {"PMIX_NAMESPACE=x", "PMIX_RANK=0", "TORCHELASTIC_RUN_ID=hvdrun.x", "WORLD_SIZE=2"},
     NESTED_BIT(PROVIDER_PMIX),
     PROVIDER_ENV},
    {{"PMIX_NAMESPACE=x", "PMIX_RANK=0", "TORCHELASTIC_RUN_ID=none", "WORLD_SIZE=2"},
     {"TORCHELASTIC_RUN_ID=none", "WORLD_SIZE=2"},
     NESTED_BIT(PROVIDER_ENV),
     PROVIDER_PMIX},
    /* hvdrun alone */
    {{"PMIX_NAMESPACE=x", "PMIX_RANK=0", "TORCHELASTIC_RUN_ID=r", "WORLD_SIZE=2"}, {NULL}, 0, PROVIDER_PMIX},
};

START_TEST(the_innermost_launcher_counts)
{
    char *environment[VARIABLES + 1], *above[VARIABLES + 1];
    enum provider provider = (enum provider)77;
    make_environment(nestings[_i].variables, environment);
    make_environment(nestings[_i].above, above);
    unsigned outer = nested_same(~0U, environment, above);
    ck_assert_uint_eq(outer, nestings[_i].outer);
    ck_assert_int_eq(provider_choose(environment, outer, &provider, NULL), HVD_OK);
    ck_assert_int_eq(provider, nestings[_i].provider);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("provider");
    unit_add_rounds(tcase, the_environment_decides, 0, COUNT(choices));
    unit_add_rounds(tcase, a_forgotten_srun_is_told, 0, sizeof(scripts) / sizeof(scripts[0]));
    unit_add_rounds(tcase, one_rank_must_agree_with_the_environment, 0, COUNT(alone));
    unit_add_rounds(tcase, the_innermost_launcher_counts, 0, COUNT(nestings));
    unit_add_rounds(tcase, the_epoch_is_read, 0, COUNT(epochs));
    tcase_add_test(tcase, restarts_of_hvdrun_are_no_epochs);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("provider", fill);
}
