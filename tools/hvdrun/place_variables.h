/* place_variables.h: the variables that tell a rank its place in the job, for programs that do not ask PMIx.
 */
#ifndef TOOLS_HVDRUN_PLACE_VARIABLES_H
#define TOOLS_HVDRUN_PLACE_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/launch_variables.h"

/* "NAME=value" strings, NULL-terminated, that point into the struct. */
struct place_variables {
    char text[LAUNCH_VARIABLES][LAUNCH_VARIABLE_BYTES];
    char epochs[128], restart[32], restart_count[40], elastic[24], hostname[96];
    char role_rank[LAUNCH_VARIABLE_BYTES], role_size[LAUNCH_VARIABLE_BYTES],
        group_size[LAUNCH_VARIABLE_BYTES];
    char *strings[LAUNCH_VARIABLES + 9];
};

/* Of an elastic job, where there are HOROVOD_ELASTIC and HOROVOD_HOSTNAME too. */
struct place_of_epochs {
    const char *host; /* the address of the launcher's machine, as a number */
    uint16_t port;    /* where the rank asks for its place in the next epoch; 0: the job is not elastic */
    int slots;        /* of the job */
    bool is_newcomer; /* it is in no epoch so far */
    int restarts;     /* how often it has been started again */
};

void place_variables_fill(struct place_variables *variables, const struct launch_place *place,
                          const struct place_of_epochs *epochs);

#endif
