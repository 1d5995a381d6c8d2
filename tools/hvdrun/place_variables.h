/* place_variables.h: the variables that tell a rank its place in the job, for programs that do not ask PMIx.
 */
#ifndef TOOLS_HVDRUN_PLACE_VARIABLES_H
#define TOOLS_HVDRUN_PLACE_VARIABLES_H

#include <stdint.h>

#include "base/launch_variables.h"

/* "NAME=value" strings, NULL-terminated, that point into the struct. */
struct place_variables {
    char text[LAUNCH_VARIABLES][LAUNCH_VARIABLE_BYTES];
    char epochs[80], restart[32], elastic[24], hostname[96];
    char *strings[LAUNCH_VARIABLES + 5];
};

/* [epochs_port]: where the rank asks for its place in the next epoch; 0 if the job is not elastic. In an
 * elastic job there are HOROVOD_ELASTIC and HOROVOD_HOSTNAME too.
 * [restarts]: how often it has been started again. */
void place_variables_fill(struct place_variables *variables, const struct launch_place *place,
                          uint16_t epochs_port, int restarts);

#endif
