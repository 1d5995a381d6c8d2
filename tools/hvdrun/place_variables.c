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

/* All ranks of torchrun's have one role here. */
static char **add_role(struct place_variables *variables, const struct launch_place *place, char **next)
{
    snprintf(variables->role_rank, sizeof(variables->role_rank), "ROLE_RANK=%d", place->rank);
    snprintf(variables->role_size, sizeof(variables->role_size), "ROLE_WORLD_SIZE=%d", place->size);
    snprintf(variables->group_size, sizeof(variables->group_size), "GROUP_WORLD_SIZE=%d", place->node_count);
    *next++ = variables->role_rank;
    *next++ = variables->role_size;
    *next++ = variables->group_size;
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
    snprintf(variables->epochs, sizeof(variables->epochs), EPOCHS_VARIABLE "=%s %u %d %d%s", epochs->host,
             epochs->port, place->rank, epochs->slots, epochs->is_newcomer ? EPOCHS_NEWCOMER : "");
    snprintf(variables->restart, sizeof(variables->restart), RESTART_VARIABLE "=%d", epochs->restarts);
    snprintf(variables->restart_count, sizeof(variables->restart_count), "TORCHELASTIC_RESTART_COUNT=%d",
             epochs->restarts);
    char **next = add_role(variables, place, variables->strings + LAUNCH_VARIABLES);
    if (epochs->port != 0) {
        *next++ = variables->epochs;
        next = add_elastic(variables, next);
    }
    if (epochs->restarts > 0) {
        *next++ = variables->restart;
        *next++ = variables->restart_count;
    }
    *next = NULL;
}
