/* facts.c: read where hvdrun runs. */
#include "config.h"

#include "tools/hvdrun/launcher/facts.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/env.h"
#include "options/parse.h"
#include "tools/common/ask.h"
#include "tools/common/command.h"

#define ASK_LIMIT_US 10000000

extern char **environ;

/* A variable that holds a number; 0 if it is not set, or holds none. */
static int number_of(char *const *environment, const char *name)
{
    int64_t number = parse_count_or(environment_value(environment, name), 0);
    return number > INT_MAX ? 0 : (int)number;
}

void launch_facts_read(struct launch_facts *facts, char *const *environment)
{
    const char *path = environment_value(environment, "PATH");
    char found[PATH_MAX];
    *facts = (struct launch_facts){.outer = outer_tasks_read(environment),
                                   .slurm_job = environment_value(environment, "SLURM_JOB_ID"),
                                   .slurm_nodes = number_of(environment, "SLURM_JOB_NUM_NODES"),
                                   .slurm_tasks = number_of(environment, "SLURM_NTASKS"),
                                   .slurm_cpus = number_of(environment, "SLURM_CPUS_PER_TASK"),
                                   .lsf_job = environment_value(environment, "LSB_JOBID")};
    for (int i = LAUNCHER_SRUN; i <= LAUNCHER_MPIRUN; i++)
        facts->found[i] =
            command_find(launcher_name((enum launcher)i), path, found, sizeof(found), NULL) == 0;
}

int launch_facts_ask(const char *program, const char *option, char *text, size_t text_bytes)
{
    const char *const words[] = {program, option, NULL};
    struct program_answer answer;
    text[0] = 0;
    if (ask_program(words, environ, ASK_LIMIT_US, &answer, NULL) == HVD_OK)
        snprintf(text, text_bytes, "%s%s", answer.output, answer.complaints);
    program_answer_free(&answer);
    return text[0] != 0 ? 0 : -1;
}
