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
    const char *step = environment_value(environment, "SLURM_STEP_ID");
    const char *why = NULL;
    int64_t number = SLURM_SPECIAL_STEP;
    return step != NULL && parse_count(step, &number, &why) == 0 && number < SLURM_SPECIAL_STEP;
}

bool slurm_job_has_hvd(char *const *environment)
{
    const char *word = environment_value(environment, SLURM_HANDED_DOWN "hvd");
    return word != NULL && strcmp(word, "off") != 0;
}
