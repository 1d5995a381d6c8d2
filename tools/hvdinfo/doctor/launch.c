/* launch.c: is the environment that of one launcher, with nothing in it that keeps ranks apart? Pure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "options/parse.h"
#include "tools/hvdinfo/doctor/checks.h"

void check_options(const struct patient *patient, struct finding *finding)
{
    int set = 0;
    if (patient->config_error[0] != 0) {
        find(finding, CHECK_FAIL, "correct it where it is set; hvdinfo --options says what is accepted", "%s",
             patient->config_error);
        return;
    }
    for (int i = 0; i < option_count; i++)
        set += patient->config->origin[i].source != CONFIG_DEFAULT;
    find(finding, CHECK_OK, NULL, "%d set, the others are the defaults; hvdinfo lists them", set);
}

/* Launchers, and the variable in which each tells its tasks how many they are. */
static const struct {
    const char *program, *tasks;
} launchers[] = {{"srun", "SLURM_STEP_NUM_TASKS"},
                 {"mpirun", "OMPI_COMM_WORLD_SIZE"},
                 {"mpiexec", "PMI_SIZE"},
                 {"jsrun", "JSM_NAMESPACE_SIZE"}};

/* Which of them has started the process with this environment, and how many tasks in *tasksp; or NULL. */
static const char *launcher_of(char *const *environment, int64_t *tasksp)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const char *text = environment_value(environment, launchers[i].tasks);
        const char *why;
        if (text != NULL && parse_count(text, tasksp, &why) == 0 && *tasksp > 0)
            return launchers[i].program;
    }
    return NULL;
}

/* hvdrun takes the variables of a launcher around it from its ranks, so that is seen only in hvdrun's own
 * environment. */
void check_launcher(const struct patient *patient, struct finding *finding)
{
    int64_t tasks = 0;
    const char *namespace = environment_value(patient->environment, "PMIX_NAMESPACE");
    bool hvdrun = namespace != NULL && strncmp(namespace, "hvdrun.", strlen("hvdrun.")) == 0;
    bool torchrun = environment_value(patient->environment, "TORCHELASTIC_RUN_ID") != NULL;
    const char *inner = hvdrun ? "hvdrun" : torchrun ? "torchrun" : NULL;
    char *const *around = hvdrun ? patient->outer : patient->environment;
    bool unknown = hvdrun && patient->outer == NULL;
    const char *outer = unknown ? NULL : launcher_of(around, &tasks);
    if (inner != NULL && outer != NULL && tasks > 1)
        find(finding, CHECK_FAIL, "leave one of the two out",
             "%s runs inside %s, whose %lld tasks each start a job of their own", inner, outer,
             (long long)tasks);
    else if (inner != NULL || outer != NULL)
        find(finding, CHECK_OK, NULL, "%s", inner != NULL ? inner : outer);
    else
        find(finding, CHECK_OK, NULL, "%s",
             namespace != NULL ? "one with PMIx"
                               : "none: a job of one rank, unless the environment describes it");
}

void check_pmix_settings(const struct patient *patient, struct finding *finding)
{
    const char *gds = environment_value(patient->environment, "PMIX_MCA_gds");
    const char *psec = environment_value(patient->environment, "PMIX_MCA_psec");
    const char *accepted =
        environment_value(patient->environment, "PMIX_SECURITY_MODE"); /* by the launcher */
    if (gds != NULL && strcmp(gds, "hash") != 0)
        find(finding, CHECK_WARN, "unset it: hvd then sets hash",
             "PMIX_MCA_gds=%.60s: with another store than hash a later MPI_Init may fail", gds);
    else if (psec != NULL && strstr(psec, "none") != NULL)
        find(finding, CHECK_WARN, "unset it, or set native or munge",
             "PMIX_MCA_psec=%.60s: PMIx does not ask which user a client is", psec);
    else if (psec != NULL && accepted != NULL && strstr(accepted, psec) == NULL)
        find(finding, CHECK_FAIL, "unset it", "PMIX_MCA_psec=%.60s, but the launcher's PMIx has %.60s", psec,
             accepted);
    else if (psec != NULL && accepted == NULL)
        find(finding, CHECK_WARN, "unset it unless the launcher's PMIx has the same",
             "PMIX_MCA_psec=%.60s: the start fails where the launcher's PMIx uses another", psec);
    else
        find(finding, CHECK_OK, NULL, "PMIX_MCA_psec and PMIX_MCA_gds are as PMIx or hvd sets them");
}
