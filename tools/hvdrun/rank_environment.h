/* rank_environment.h: the environment that ranks start with, but for what is each rank's own. Pure. */
#ifndef TOOLS_HVDRUN_RANK_ENVIRONMENT_H
#define TOOLS_HVDRUN_RANK_ENVIRONMENT_H

#include <stdbool.h>

#include "base/status.h"

/* From hvdrun's own [environment], without what an outer launcher said, with what an unmodified Open MPI
 * program needs, and with [cli] as HVD_CLI ("": none). [shared]: a folder for its shared memory ("": its
 * choice). NULL-terminated, for rank_environment_free; NULL where memory ran out. */
char **rank_environment_create(char *const *environment, const char *cli, const char *shared);
void rank_environment_free(char **environment);

#endif
