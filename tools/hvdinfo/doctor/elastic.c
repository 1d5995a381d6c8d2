/* elastic.c: can this job go on without ranks that fail, and how soon does it hear of them? Pure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/launch_variables.h"
#include "base/secret.h"
#include "options/parse.h"
#include "options/slurm_step.h"
#include "tools/hvdinfo/doctor/checks.h"

/* What ends a whole step, although hvd would go on; and the cure. */
struct obstacle {
    const char *what, *mend;
};

/* The plug-in sets these variables in srun, which hands them to its tasks, unless the user has set them. */
static struct obstacle find_obstacle(char *const *environment)
{
    const char *type = environment_value(environment, "SLURM_MPI_TYPE");
    const char *bad_exit = environment_value(environment, "SLURM_KILL_BAD_EXIT");
    if (slurm_wires_up_job(environment) || (type != NULL && strcmp(type, "none") != 0))
        return (struct obstacle){"with this MPI type a task that dies takes the step with it",
                                 "srun --mpi=none, or neither --mpi nor SLURM_MPI_TYPE"};
    if (bad_exit != NULL && strcmp(bad_exit, "0") != 0)
        return (struct obstacle){"with SLURM_KILL_BAD_EXIT a task that fails ends the step",
                                 "unset it, or set it to 0"};
    if (environment_value(environment, "SLURM_NO_KILL") == NULL)
        return (struct obstacle){"without --no-kill a node that is lost ends the step",
                                 "leave SLURM_NO_KILL to the plug-in, and give the job --no-kill as well"};
    return (struct obstacle){NULL, NULL};
}

void check_elastic(const struct patient *patient, struct finding *finding)
{
    char lease[32];
    bool elastic = environment_value(patient->environment, EPOCHS_VARIABLE) != NULL;
    bool step = slurm_step_is_users(patient->environment);
    struct obstacle obstacle = {NULL, NULL};
    format_time(patient->config->lease_us, lease, sizeof(lease));
    if (elastic && step)
        obstacle = find_obstacle(patient->environment);
    if (obstacle.what != NULL)
        find(finding, CHECK_FAIL, obstacle.mend, "%s, although it is elastic", obstacle.what);
    else if (elastic)
        find(finding, CHECK_OK, NULL,
             "%s; a rank is lost when its process ends, and when its node is silent for %s (--hvd-lease)",
             step ? "MPI type none, and neither a bad exit nor a lost node ends the step" : "by hvdrun",
             lease);
    else
        find(
            finding, CHECK_OK, NULL,
            "no: a rank that fails ends the job; srun --hvd-min=N or hvdrun --min-np=N lets N or more go on");
}
