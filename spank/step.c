/* step.c: what Slurm tells of the step that this process belongs to. */
#include "config.h"
#include "spank/step.h"

#include <slurm/slurm.h>

#include "options/parse.h"

uint32_t step_id(spank_t spank)
{
    uint32_t id = SLURM_EXTERN_CONT;
    return spank_get_item(spank, S_JOB_STEPID, &id) == ESPANK_SUCCESS ? id : SLURM_EXTERN_CONT;
}

bool step_is_normal(spank_t spank)
{
    return step_id(spank) <= SLURM_MAX_NORMAL_STEP_ID;
}

char *const *step_environment(spank_t spank)
{
    static char *const none[] = {NULL};
    char **environment = NULL;
    spank_err_t rc = spank_get_item(spank, S_JOB_ENV, &environment);
    return rc == ESPANK_SUCCESS && environment != NULL ? environment : none;
}

bool step_task_number(spank_t spank, const char *name, int *numberp)
{
    char text[24];
    int64_t number = 0;
    const char *why = NULL;
    if (spank_getenv(spank, name, text, sizeof(text)) != ESPANK_SUCCESS ||
        parse_count(text, &number, &why) < 0 || number > INT32_MAX)
        return false;
    *numberp = (int)number;
    return true;
}
