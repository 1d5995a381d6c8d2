/* launch_variables.c: the variables by which programs of torchrun and horovodrun find their place. */
#include "base/launch_variables.h"

#include <string.h>

#include "base/env.h"

static const struct {
    const char *name;
    size_t offset; /* in struct launch_place */
} variables[LAUNCH_VARIABLES] = {
    {"RANK", offsetof(struct launch_place, rank)},
    {"WORLD_SIZE", offsetof(struct launch_place, size)},
    {"LOCAL_RANK", offsetof(struct launch_place, local_rank)},
    {"LOCAL_WORLD_SIZE", offsetof(struct launch_place, local_size)},
    {"NODE_RANK", offsetof(struct launch_place, node)},
    {"GROUP_RANK", offsetof(struct launch_place, node)},
    {"HOROVOD_RANK", offsetof(struct launch_place, rank)},
    {"HOROVOD_SIZE", offsetof(struct launch_place, size)},
    {"HOROVOD_LOCAL_RANK", offsetof(struct launch_place, local_rank)},
    {"HOROVOD_LOCAL_SIZE", offsetof(struct launch_place, local_size)},
    {"HOROVOD_CROSS_RANK", offsetof(struct launch_place, node)},
    {"HOROVOD_CROSS_SIZE", offsetof(struct launch_place, node_count)},
};

const char *launch_variable_name(int i)
{
    return variables[i].name;
}

int *launch_variable_of(int i, struct launch_place *place)
{
    return (int *)(void *)((char *)place + variables[i].offset);
}

int launch_variable_value(int i, const struct launch_place *place)
{
    return *launch_variable_of(i, (struct launch_place *)place);
}

bool launch_is_newcomer(char *const *environment)
{
    const char *text = environment_value(environment, EPOCHS_VARIABLE);
    const char *last = text == NULL ? NULL : strrchr(text, ' ');
    return last != NULL && strcmp(last, EPOCHS_NEWCOMER) == 0;
}
