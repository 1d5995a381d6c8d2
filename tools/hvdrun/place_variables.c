/* place_variables.c: tell a rank its place in the job by the variables of torchrun and horovodrun. */
#include "tools/hvdrun/place_variables.h"

#include <stdio.h>
#include <unistd.h>

/* What Horovod's elastic scripts look at. */
static char **add_elastic(struct place_variables *variables, char **next)
{
    char host[sizeof(variables->hostname) - sizeof("HOROVOD_HOSTNAME=")] = "";
    gethostname(host, sizeof(host) - 1);
    snprintf(variables->elastic, sizeof(variables->elastic), "HOROVOD_ELASTIC=1");
    snprintf(variables->hostname, sizeof(variables->hostname), "HOROVOD_HOSTNAME=%s", host);
    *next++ = variables->elastic;
    *next++ = variables->hostname;
    return next;
}

void place_variables_fill(struct place_variables *variables, const struct launch_place *place,
                          const struct place_of_epochs *epochs)
{
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        snprintf(variables->text[i], sizeof(variables->text[i]), "%s=%d", launch_variable_name(i),
                 launch_variable_value(i, place));
        variables->strings[i] = variables->text[i];
    }
    snprintf(variables->epochs, sizeof(variables->epochs), EPOCHS_VARIABLE "=127.0.0.1 %u %d %d%s",
             epochs->port, place->rank, epochs->slots, epochs->is_newcomer ? EPOCHS_NEWCOMER : "");
    snprintf(variables->restart, sizeof(variables->restart), RESTART_VARIABLE "=%d", epochs->restarts);
    char **next = variables->strings + LAUNCH_VARIABLES;
    if (epochs->port != 0) {
        *next++ = variables->epochs;
        next = add_elastic(variables, next);
    }
    if (epochs->restarts > 0)
        *next++ = variables->restart;
    *next = NULL;
}
