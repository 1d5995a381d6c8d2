/* outer_tasks.c: read from the environment of which launcher's tasks this process is one. */
#include "tools/common/outer_tasks.h"

#include <stddef.h>

#include "base/env.h"
#include "options/parse.h"

/* Launchers, and the variables in which each tells its tasks how many they are, and which this one is. */
static const struct {
    const char *program, *count, *number;
} launchers[] = {{"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                 {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                 {"mpiexec", "PMI_SIZE", "PMI_RANK"},
                 {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"}};

static int64_t number_of(char *const *environment, const char *name)
{
    const char *text = environment_value(environment, name), *why = NULL;
    int64_t number = 0;
    return text != NULL && parse_count(text, &number, &why) == 0 ? number : -1;
}

struct outer_tasks outer_tasks_read(char *const *environment)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        int64_t count = number_of(environment, launchers[i].count);
        if (count > 0)
            return (struct outer_tasks){launchers[i].program, count,
                                        number_of(environment, launchers[i].number)};
    }
    return (struct outer_tasks){NULL, 1, -1};
}
