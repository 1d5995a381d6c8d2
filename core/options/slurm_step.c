/* slurm_step.c: what Slurm's variables say of a process. */
#include "options/slurm_step.h"

#include <stddef.h>
#include <string.h>

#include "base/env.h"
#include "options/parse.h"

/* The numbers of Slurm's own steps (batch, interactive, extern) begin here. */
#define SLURM_SPECIAL_STEP INT64_C(0xfffffff0)

bool slurm_step_is_users(char *const *environment)
{
    return parse_count_or(environment_value(environment, "SLURM_STEP_ID"), SLURM_SPECIAL_STEP) <
           SLURM_SPECIAL_STEP;
}

bool slurm_job_has_hvd(char *const *environment)
{
    const char *word = environment_value(environment, SLURM_HANDED_DOWN "hvd");
    return word != NULL && strcmp(word, "off") != 0;
}
