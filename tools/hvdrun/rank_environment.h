/* rank_environment.h: the environment that all ranks share. Does no I/O. */
#ifndef TOOLS_HVDRUN_RANK_ENVIRONMENT_H
#define TOOLS_HVDRUN_RANK_ENVIRONMENT_H

#include <stdbool.h>

#include "base/status.h"

/* Returns hvdrun's own [environment] without the variables of an outer launcher, with those that an
 * unmodified Open MPI program needs, with [secret] as HVD_JOB_KEY, and with [cli] as HVD_CLI ("": none).
 * [shared] is the folder for Open MPI's shared memory ("": its default). The result is NULL-terminated; free
 * it with rank_environment_free. NULL if memory ran out. */
char **rank_environment_create(char *const *environment, const char *secret, const char *cli,
                               const char *shared);
void rank_environment_free(char **environment);

#endif
