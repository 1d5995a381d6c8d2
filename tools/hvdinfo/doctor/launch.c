/* launch.c: is the environment that of one launcher, with nothing in it that keeps ranks apart? Pure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/launch_variables.h"
#include "tools/common/outer_tasks.h"
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

/* hvdrun takes the variables of a launcher around it from its ranks, so that is seen only in hvdrun's own
 * environment. */
void check_launcher(const struct patient *patient, struct finding *finding)
{
    struct outer_tasks outer = outer_tasks_read(patient->environment);
    bool torchrun = environment_value(patient->environment, "TORCHELASTIC_RUN_ID") != NULL;
    bool epochs = environment_value(patient->environment, EPOCHS_VARIABLE) != NULL;
    if (torchrun && epochs && outer.launcher == NULL) { /* newcomers and ranks of agents have no PMIx */
        find(finding, CHECK_OK, NULL, "hvdrun");
        return;
    }
    bool hvdrun = outer.launcher != NULL && strcmp(outer.launcher, "hvdrun") == 0;
    const char *inner = hvdrun ? "hvdrun" : torchrun ? "torchrun" : NULL;
    if (hvdrun && patient->outer != NULL)
        outer = outer_tasks_read(patient->outer);
    if (inner != NULL && outer.count > 1)
        find(finding, CHECK_FAIL, "leave one of the two out",
             "%s runs inside %s, whose %lld tasks each start a job of their own", inner, outer.launcher,
             (long long)outer.count);
    else if (inner != NULL || outer.launcher != NULL)
        find(finding, CHECK_OK, NULL, "%s", inner != NULL ? inner : outer.launcher);
    else
        find(finding, CHECK_OK, NULL, "none: a job of one rank, unless the environment describes it");
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
