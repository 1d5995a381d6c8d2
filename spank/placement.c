/* placement.c: decide the placement of a step's tasks in slurmstepd, before they are forked. */
#include "config.h"
#include "spank/placement_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "spank/options.h"
#include "spank/step.h"

struct placement_state placement_state;

/* ---- Options ---------------------------------------------------------------------------------------- */

/* Copy the user's variables that matter here, and find out whether one of them says how tasks are placed. The
 * program checks the values of all others. */
static size_t copy_variables(char *const *environment, char **to, bool *asksp)
{
    size_t count = 0;
    for (int i = 0; i < option_count; i++) {
        const struct hvd_option *option = &option_table[i];
        char name[64];
        if (!option->places_tasks && option != OPTION_OF(nics))
            continue;
        option_env_name(option, name);
        size_t length = strlen(name);
        for (char *const *at = environment; *at != NULL; at++)
            if (strncmp(*at, name, length) == 0 && (*at)[length] == '=') {
                to[count++] = *at;
                *asksp = *asksp || option->places_tasks;
                break;
            }
    }
    return count;
}

static void set_options(struct placement_options *options, const struct hvd_config *config)
{
    options->required = config_requires_placement(config);
    options->placed = options->placed || config_has_placement(config);
    options->bind = config->bind;
    options->gpu_visible = (enum gpu_visible)config->gpu_visible;
    options->rs = config->rs;
    memcpy(options->nics, config->nics, sizeof(options->nics));
}

int placement_read_options(struct placement_options *options, const struct site *site,
                           char *const *environment, struct hvd_error *err)
{
    char cli[sizeof(CONFIG_CLI_VARIABLE) + CONFIG_LIST_BYTES + 1] = CONFIG_CLI_VARIABLE "=";
    char from_site[sizeof(CONFIG_SITE_VARIABLE) + CONFIG_LIST_BYTES + 1] = CONFIG_SITE_VARIABLE "=";
    char *variables[OPTION_MAX + 3];
    /* of the variables, only those of placement move tasks */
    static char *const none[] = {NULL};
    *options = (struct placement_options){.placed = options_use_hvd(site, none)};
    if (options_switched_off())
        return HVD_OK;
    struct hvd_config *config = calloc(1, sizeof(*config));
    size_t count = copy_variables(environment, variables, &options->placed);
    if (config == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to read how tasks are to be placed");
    int rc = options_list(cli + strlen(cli), err);
    snprintf(from_site + strlen(from_site), CONFIG_LIST_BYTES + 1, "%s", site->list);
    variables[count] = cli;
    variables[count + 1] = from_site;
    variables[count + 2] = NULL;
    if (rc == HVD_OK)
        rc = config_load_with(NULL, config, variables, NULL, err);
    if (rc == HVD_OK)
        set_options(options, config);
    else
        options->required = options->placed;
    free(config);
    return rc;
}

/* ---- Slurm's facts ---------------------------------------------------------------------------------- */

static int plan_in_child(spank_t spank, const struct site *site, struct hvd_error *err)
{
    const struct placement_options *options = &placement_state.options;
    uint32_t task_count = 0;
    char *cores = NULL;
    struct planner_request request = {
        .placement = {.topology = site->topology[0] == 0 ? NULL : site->topology,
                      .bind = options->bind,
                      .rs = options->rs.given ? &options->rs : NULL,
                      .nics = options->bind.verbose ? options->nics : NULL,
                      .environment = step_environment(spank)},
    };
    if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &task_count) != ESPANK_SUCCESS ||
        task_count > PLAN_MAX_TASKS)
        return error_set(err, HVD_ERR_SYSTEM, "%u tasks are to run on this node; expected 1 to %d",
                         task_count, PLAN_MAX_TASKS);
    request.placement.task_count = (int)task_count;
    if (spank_get_item(spank, S_STEP_ALLOC_CORES, &cores) == ESPANK_SUCCESS)
        request.cores = cores;
    int rc = step_user_find(spank, &request.owner, err);
    return rc == HVD_OK
               ? planner_run(&request, planner_plan, PLANNER_TIMEOUT_MS, &placement_state.answer, err)
               : rc;
}

/* Keep the node's GPUs: each task finds out for itself which of them it sees. */
static int keep_gpus(struct hvd_error *err)
{
    const struct planner_reply *head = &placement_state.answer->head;
    if (head->gpu_count == 0)
        return HVD_OK;
    placement_state.machine = calloc(1, sizeof(*placement_state.machine));
    if (placement_state.machine == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the GPUs of this node");
    placement_state.machine->gpu_count = head->gpu_count;
    memcpy(placement_state.machine->gpus, head->gpus, sizeof(head->gpus));
    void *shared = mmap(NULL, (size_t)head->task_count * PCI_ID_BYTES, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    placement_state.seen_gpus = shared == MAP_FAILED ? NULL : shared;
    return HVD_OK;
}

void placement_gpu_text(int index, char *text, size_t text_bytes)
{
    char id[PCI_ID_BYTES];
    text[0] = 0;
    if (placement_state.seen_gpus == NULL || index < 0 || index >= placement_state.answer->head.task_count)
        return;
    memcpy(id, placement_state.seen_gpus[index], sizeof(id));
    if (plan_text_valid(id, sizeof(id)) && id[0] != 0)
        snprintf(text, text_bytes, "GPU %s", id);
}

/* Can the child process be skipped? If nothing is bound, a plan would only tell tasks their GPUs and print
 * lines. */
static bool needs_no_plan(const struct placement_options *options, const struct site *site)
{
    return options->bind.policy == BIND_NONE && !options->rs.given && !options->bind.verbose &&
           options->gpu_visible == GPU_VISIBLE_ALL && site->topology[0] == 0 && !node_has_gpus(NULL);
}

void placement_prepare(spank_t spank, const struct site *site)
{
    struct placement_state *state = &placement_state;
    int rc = placement_read_options(&state->options, site, step_environment(spank), &state->failure);
    if (!state->options.placed)
        return;
    if (rc == HVD_OK && !needs_no_plan(&state->options, site)) {
        rc = plan_in_child(spank, site, &state->failure);
        if (rc == HVD_OK)
            rc = keep_gpus(&state->failure);
    }
    state->status = rc;
}
