/* outer_tasks.c: read from the environment of which launcher's tasks this process is one. */
#include "tools/common/outer_tasks.h"

#include <string.h>

#include "base/env.h"
#include "options/parse.h"
#include "options/slurm_step.h"

/* Launchers, and the variables in which each tells its tasks how many they are, and which this one is. */
static const struct {
    const char *program, *count, *number;
} launchers[] = {{"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                 {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
                 {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                 {"mpiexec", "PMI_SIZE", "PMI_RANK"}};

/* The shell of salloc is a step too and may have the variables of srun and PMI, but no srun started it. */
static bool has_started_this(const char *program, const char *number, char *const *environment)
{
    if (strcmp(program, "srun") == 0)
        return slurm_step_is_users(environment);
    return environment_value(environment, number) != NULL &&
           (strcmp(program, "mpiexec") != 0 || environment_value(environment, "SLURM_STEP_ID") == NULL);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

struct outer_tasks outer_tasks_read(char *const *environment)
{
    const char *namespace = environment_value(environment, "PMIX_NAMESPACE");
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
        if (has_started_this(launchers[i].program, launchers[i].number, environment))
            return (struct outer_tasks){
                launchers[i].program, parse_count_or(environment_value(environment, launchers[i].count), 0),
                parse_count_or(environment_value(environment, launchers[i].number), -1)};
    if (namespace == NULL || begins(namespace, "slurm.pmix."))
        return (struct outer_tasks){NULL, 0, -1};
    if (!begins(namespace, "hvdrun."))
        return (struct outer_tasks){begins(namespace, "prterun-") ? "prterun" : "a launcher with PMIx", 0,
                                    parse_count_or(environment_value(environment, "PMIX_RANK"), -1)};
    return (struct outer_tasks){"hvdrun", parse_count_or(environment_value(environment, "WORLD_SIZE"), 0),
                                parse_count_or(environment_value(environment, "RANK"), -1)};
}
