/* task_place.c: tell a task its place in the step by the variables of torchrun and horovodrun. */
#include "config.h"
#include "spank/task_place.h"

#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/launch_variables.h"
#include "options/node_address.h"
#include "options/node_list.h"
#include "spank/failure_reporter.h"
#include "spank/first_host.h"
#include "spank/options.h"
#include "spank/step.h"

#define NODE_LIST_BYTES 65536

#define MASTER_SET_BYTES (FIRST_HOST_BYTES + 8)

/* What takes the place of the name of rank 0's node in the tasks of this node; "": the name is good. Global,
 * because SPANK passes no data of a plug-in from one call to the next. */
static char first_address[FAILURE_ANSWER_BYTES];

/* The node of rank 0. Slurm sorts the nodes of a step of several components, so there it is the first node of
 * the first component that is in the step. */
static bool find_first_host(spank_t spank, char host[FIRST_HOST_BYTES])
{
    static char list[NODE_LIST_BYTES], component[NODE_LIST_BYTES];
    static const char *const forms[] = {"SLURM_JOB_NODELIST_HET_GROUP_", "SLURM_JOB_NODELIST_PACK_GROUP_"};
    if (spank_getenv(spank, "SLURM_STEP_NODELIST", list, sizeof(list)) != ESPANK_SUCCESS)
        return false;
    for (int i = 0; i < STEP_COMPONENTS; i++) {
        spank_err_t rc = ESPANK_ENV_NOEXIST;
        for (size_t form = 0; form < sizeof(forms) / sizeof(forms[0]) && rc != ESPANK_SUCCESS; form++) {
            char name[48];
            snprintf(name, sizeof(name), "%s%d", forms[form], i);
            rc = spank_getenv(spank, name, component, sizeof(component));
        }
        if (rc != ESPANK_SUCCESS)
            break;
        for (long node = 0; node_list_at(component, node, host, FIRST_HOST_BYTES); node++)
            if (node_list_has(list, host))
                return true;
    }
    return node_list_at(list, 0, host, FIRST_HOST_BYTES);
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
    char set[MASTER_SET_BYTES], host[FIRST_HOST_BYTES], port[8];
    uint32_t step = 0;
    int job = 0;
    if (!step_task_number(spank, "SLURM_JOB_ID", &job) || /* S_JOB_ID differs from component to component */
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS || !find_first_host(spank, host))
        return;
    if (first_address[0] != 0)
        snprintf(host, sizeof(host), "%s", first_address);
    snprintf(port, sizeof(port), "%d", task_place_port(site, (uint32_t)job, step));
    spank_setenv(spank, MASTER_ADDR_VARIABLE, host, 0);
    spank_setenv(spank, MASTER_PORT_VARIABLE, port, 0);
    snprintf(set, sizeof(set), "%s %s", host, port);
    spank_setenv(spank, MASTER_SET_VARIABLE, set, 1);
}

static bool users_master(char *const *environment)
{
    return environment_value(environment, MASTER_ADDR_VARIABLE) != NULL &&
           environment_value(environment, MASTER_SET_VARIABLE) == NULL;
}

void task_place_prepare(spank_t spank)
{
    char answer[FAILURE_ANSWER_BYTES];
    struct first_host first;
    uint32_t node = 0;
    if (users_master(step_environment(spank)) || !find_first_host(spank, first.name) ||
        spank_get_item(spank, S_JOB_NODEID, &node) != ESPANK_SUCCESS)
        return;
    first.here = node == 0;
    if (!first_host_resolves(spank, &first) && failure_reporter_ask(answer) &&
        node_address_leads(answer, first.here))
        memcpy(first_address, answer, sizeof(first_address));
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
