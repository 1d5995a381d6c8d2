/* task_place.c: tell a task its place in the step by the variables of torchrun and horovodrun. */
#include "config.h"
#include "spank/task_place.h"

#include <stdio.h>
#include <string.h>

#include "base/launch_variables.h"
#include "spank/options.h"
#include "spank/step.h"

#define NODE_LIST_BYTES 65536

/* "ADDR PORT", as the plug-in has set them: a step inside the step replaces these, and keeps the user's. */
#define MASTER_SET_VARIABLE "HVD_MASTER_SET"
#define MASTER_SET_BYTES    (FIRST_HOST_BYTES + 8)

bool task_place_first_host(const char *list, char host[FIRST_HOST_BYTES])
{
    size_t used = 0;
    while (*list != 0 && *list != ',') {
        size_t length = strcspn(list, "[,");
        bool range = *list == '[';
        if (range)
            length = strcspn(++list, "-,]");
        if (length >= FIRST_HOST_BYTES - used)
            return false;
        memcpy(host + used, list, length);
        used += length;
        list += length;
        if (range) {
            list += strcspn(list, "]");
            if (*list == 0)
                return false;
            list++;
        }
    }
    host[used] = 0;
    return used > 0;
}

/* Steps that run side by side on a node differ in one of the two numbers. */
int task_place_port(const struct site *site, uint32_t job, uint32_t step)
{
    uint32_t number = job * UINT32_C(101) + step;
    return site->port_count > 0 ? site->first_port + (int)(number % (uint32_t)site->port_count)
                                : MASTER_PORT_FIRST + (int)(number % MASTER_PORT_COUNT);
}

/* In a step of several components, too, Slurm's variables count all its ranks and nodes. */
static bool read_place(spank_t spank, struct launch_place *place)
{
    uint32_t local_size = 0;
    if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &local_size) != ESPANK_SUCCESS)
        return false;
    place->local_size = (int)local_size;
    return step_task_number(spank, "SLURM_PROCID", &place->rank) &&
           step_task_number(spank, "SLURM_STEP_NUM_TASKS", &place->size) &&
           step_task_number(spank, "SLURM_LOCALID", &place->local_rank) &&
           step_task_number(spank, "SLURM_NODEID", &place->node) &&
           step_task_number(spank, "SLURM_STEP_NUM_NODES", &place->node_count);
}

/* They replace those of an outer launcher: the same value in all tasks cannot be the user's. */
static void set_place(spank_t spank, const struct launch_place *place)
{
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        char value[16];
        snprintf(value, sizeof(value), "%d", launch_variable_value(i, place));
        spank_setenv(spank, launch_variable_name(i), value, 1);
    }
}

/* Take away what the plug-in has set for the tasks of an outer step. */
static void unset_outer_master(spank_t spank)
{
    char set[MASTER_SET_BYTES], found[MASTER_SET_BYTES];
    char host[FIRST_HOST_BYTES], port[8];
    if (spank_getenv(spank, MASTER_SET_VARIABLE, set, sizeof(set)) != ESPANK_SUCCESS)
        return;
    spank_unsetenv(spank, MASTER_SET_VARIABLE);
    if (spank_getenv(spank, MASTER_ADDR_VARIABLE, host, sizeof(host)) != ESPANK_SUCCESS ||
        spank_getenv(spank, MASTER_PORT_VARIABLE, port, sizeof(port)) != ESPANK_SUCCESS)
        return;
    snprintf(found, sizeof(found), "%s %s", host, port);
    if (strcmp(found, set) != 0)
        return;
    spank_unsetenv(spank, MASTER_ADDR_VARIABLE);
    spank_unsetenv(spank, MASTER_PORT_VARIABLE);
}

static void set_master(spank_t spank, const struct site *site)
{
    static char list[NODE_LIST_BYTES];
    char set[MASTER_SET_BYTES], host[FIRST_HOST_BYTES], port[8];
    uint32_t step = 0;
    int job = 0;
    if (spank_getenv(spank, "SLURM_STEP_NODELIST", list, sizeof(list)) != ESPANK_SUCCESS ||
        !step_task_number(spank, "SLURM_JOB_ID", &job) || /* S_JOB_ID differs from component to component */
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS || !task_place_first_host(list, host))
        return;
    snprintf(port, sizeof(port), "%d", task_place_port(site, (uint32_t)job, step));
    spank_setenv(spank, MASTER_ADDR_VARIABLE, host, 0);
    spank_setenv(spank, MASTER_PORT_VARIABLE, port, 0);
    snprintf(set, sizeof(set), "%s %s", host, port);
    spank_setenv(spank, MASTER_SET_VARIABLE, set, 1);
}

void task_place_init(spank_t spank, const struct site *site)
{
    struct launch_place place;
    if (!step_is_normal(spank))
        return;
    unset_outer_master(spank);
    if (!options_use_hvd(site, step_environment(spank)) || !read_place(spank, &place))
        return;
    set_place(spank, &place);
    set_master(spank, site);
}
