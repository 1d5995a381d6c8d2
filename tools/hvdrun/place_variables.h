/* place_variables.h: the variables that tell a rank its place in the job, for programs that do not ask PMIx.
 */
#ifndef TOOLS_HVDRUN_PLACE_VARIABLES_H
#define TOOLS_HVDRUN_PLACE_VARIABLES_H

#include "base/launch_variables.h"

/* "NAME=value" strings, NULL-terminated, that point into the struct. */
struct place_variables {
    char text[LAUNCH_VARIABLES][LAUNCH_VARIABLE_BYTES];
    char *strings[LAUNCH_VARIABLES + 1];
};

void place_variables_fill(struct place_variables *variables, int rank, int size);

#endif
