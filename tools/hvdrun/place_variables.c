/* place_variables.c: tell a rank its place in the job by the variables of torchrun and horovodrun. */
#include "tools/hvdrun/place_variables.h"

#include <stdio.h>

void place_variables_fill(struct place_variables *variables, int rank, int size)
{
    const struct launch_place place = {
        .rank = rank, .size = size, .local_rank = rank, .local_size = size, .node = 0, .node_count = 1};
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        snprintf(variables->text[i], sizeof(variables->text[i]), "%s=%d", launch_variable_name(i),
                 launch_variable_value(i, &place));
        variables->strings[i] = variables->text[i];
    }
    variables->strings[LAUNCH_VARIABLES] = NULL;
}
