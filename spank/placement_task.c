/* placement_task.c: apply the placement in a task, as the user, just before its program starts. */
#include "config.h"
#include "spank/placement_state.h"
#include "spank/step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/apply.h"

/* ---- CPUs and memory -------------------------------------------------------------------------------- */

struct task_cpus placement_choose_cpus(const struct placement_options *options, const struct plan_task *task,
                                       const struct bitmap *now, const struct bitmap *granted)
{
    bool narrower = bitmap_is_included(now, granted) && !bitmap_is_equal(now, granted);
    struct task_cpus chosen = {.kept = true, .cpus = *now, .why = "kept as Slurm bound it"};
    if (options->bind.policy == BIND_NONE && !options->rs.given) {
        chosen.kept = !bitmap_is_equal(now, &task->cpus);
        return chosen;
    }
    if (narrower && !options->bind.force)
        return chosen;
    struct bitmap cpus = task->cpus;
    if (!options->bind.force)
        bitmap_and(&cpus, now);
    if (bitmap_is_empty(&cpus)) {
        chosen.why = "kept, as it may run on none of the CPUs that it was to have";
        return chosen;
    }
    return (struct task_cpus){.cpus = cpus};
}

static void write_kept(struct plan_task *task, const struct task_cpus *chosen,
                       const struct planner_reply *head)
{
    task->cpus = chosen->cpus;
    task->mems = head->mems;
    task->threads = bitmap_weight(&task->cpus);
    task->bound = false;
    snprintf(task->why, sizeof(task->why), "%s", chosen->why);
}

/* Set the memory policy, unless Slurm's --mem-bind or numactl has set one and force is not given. */
static void choose_mems(struct plan_task *task, const struct planner_reply *head)
{
    if (placement_state.options.bind.force || !apply_mems_are_set())
        apply_mems(&task->mems);
    else
        task->mems = head->mems;
}

/* Bind the task. Afterwards [task] holds the CPUs in force, which may be fewer than asked for, because a
 * cgroup may allow less. */
static int bind_cpus(struct plan_task *task, bool *keptp, struct hvd_error *err)
{
    const struct planner_reply *head = &placement_state.answer->head;
    struct bitmap now;
    int rc = apply_read_cpus(0, &now, err);
    if (rc != HVD_OK)
        return rc;
    struct task_cpus chosen = placement_choose_cpus(&placement_state.options, task, &now, &head->cpus);
    *keptp = chosen.kept;
    if (chosen.kept) {
        write_kept(task, &chosen, head);
        return HVD_OK;
    }
    if (!bitmap_is_equal(&chosen.cpus, &now)) {
        rc = apply_cpus(0, &chosen.cpus, err);
        if (rc == HVD_OK)
            rc = apply_read_cpus(0, &now, err);
    }
    task->cpus = now;
    if (rc == HVD_OK && task->bound)
        choose_mems(task, head);
    return rc;
}

/* ---- GPUs ------------------------------------------------------------------------------------------- */

/* Give the task one of the GPUs that it sees. If all tasks see the same GPUs, each gets another one. */
static void share_seen_gpus(struct plan_task *task, int index, const struct planner_reply *head,
                            const struct visible_gpus *visible)
{
    int device = index * visible->count / head->task_count;
    int gpu = visible->gpus[device];
    size_t used = strlen(task->why);
    task->gpu_count = 1;
    task->gpus[0] = gpu;
    task->devices[0] = device;
    task->gpu_amd = head->gpus[gpu].pci.vendor == MACHINE_VENDOR_AMD;
    snprintf(task->gpu_ids[0], PCI_ID_BYTES, "%s", head->gpus[gpu].pci.id);
    snprintf(task->why + used, sizeof(task->why) - used, "; of the GPUs that Slurm shows it");
}

void placement_correct_gpus(struct plan_task *task, int index, const struct planner_reply *head,
                            const struct visible_gpus *visible)
{
    int seen = 0;
    if (task->gpu_count == 0)
        return;
    for (int i = 0; i < task->gpu_count; i++) {
        int device = visible_gpus_device(visible, task->gpus[i]);
        if (device < 0)
            continue;
        task->gpus[seen] = task->gpus[i];
        task->devices[seen] = device;
        memmove(task->gpu_ids[seen], task->gpu_ids[i], PCI_ID_BYTES);
        seen++;
    }
    task->gpu_count = seen;
    if (seen == 0 && visible->count > 0)
        share_seen_gpus(task, index, head, visible);
}

/* ---- Variables -------------------------------------------------------------------------------------- */

/* If a task that was itself placed has started this step, remove the variables that the outer step set: they
 * are not the user's. The variables that hide GPUs stay, because they hold for this task too. */
static void unset_outer_variables(spank_t spank)
{
    const char *placed = environment_value(step_environment(spank), PLACED_VARIABLE);
    char list[APPLY_VALUE_BYTES];
    const char *at = list;
    struct token listed;
    snprintf(list, sizeof(list), "%s", placed == NULL ? "" : placed);
    while (placed_next_variable(&at, &listed)) {
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)(listed.length < 63 ? listed.length : 63), listed.text);
        if (strstr(name, "_VISIBLE_DEVICES") == NULL)
            spank_unsetenv(spank, name);
    }
}

static int write_variables(spank_t spank, const struct plan_task *task, bool kept, struct hvd_error *err)
{
    struct env_variable variables[APPLY_MAX];
    const struct launched_task launched = {.task = task,
                                           .launcher = "srun",
                                           .gpu_visible = placement_state.options.gpu_visible,
                                           .kept = kept,
                                           .environment = step_environment(spank)};
    int count = apply_variables(&launched, variables, err);
    for (int i = 0; i < count; i++) {
        spank_err_t rc = spank_setenv(spank, variables[i].name, variables[i].value, 1);
        if (rc != ESPANK_SUCCESS)
            return error_set(err, HVD_ERR_SYSTEM, "%s cannot be put into the environment of the task: %s",
                             variables[i].name, spank_strerror(rc));
    }
    return count < 0 ? count : HVD_OK;
}

/* ---- Output ----------------------------------------------------------------------------------------- */

static void print_placement(const struct task_id *id, int index, const struct plan_task *task, bool kept,
                            const struct visible_gpus *visible)
{
    const struct planner_reply *head = &placement_state.answer->head;
    char line[1024];
    plan_task_text(task, id->rank < 0 ? index : (int)id->rank, line, sizeof(line));
    slurm_spank_log("hvd: %s: %s", id->node, line);
    if (index > 0)
        return;
    if (head->note[0] != 0 && !kept)
        slurm_spank_log("hvd: %s: %s", id->node, head->note);
    const char *advice = visible_gpus_hidden_advice(visible->count, head->visible_count, head->task_count);
    if (advice != NULL)
        slurm_spank_log("hvd: %s: %s", id->node, advice);
}

/* Report why tasks are not placed: an error if the user asked for placement, otherwise a line at -v. Only the
 * first task of each node prints it. */
static int report_failure(int index, struct hvd_error *err)
{
    if (placement_state.options.required)
        return error_set(err, placement_state.status, "%s", index == 0 ? placement_state.failure.text : "");
    if (index == 0)
        slurm_verbose("hvd: tasks are not placed: %s", placement_state.failure.text);
    return HVD_OK;
}

/* ---- The task --------------------------------------------------------------------------------------- */

/* Set only the variable that keeps others from placing the task again. */
static int mark_placed(spank_t spank, struct hvd_error *err)
{
    static const struct plan_task nothing;
    return write_variables(spank, &nothing, true, err);
}

static int place_task(spank_t spank, const struct task_id *id, int index, struct hvd_error *err)
{
    const struct planner_reply *head = &placement_state.answer->head;
    struct plan_task task = placement_state.answer->tasks[index];
    struct visible_gpus visible = {.count = 0};
    bool kept = false;
    int rc = bind_cpus(&task, &kept, err);
    if (rc != HVD_OK)
        return rc;
    if (placement_state.machine != NULL) {
        const struct node_placement own = {.environment = step_environment(spank)};
        node_placement_find_gpus(&own, placement_state.machine, &visible);
        placement_correct_gpus(&task, index, head, &visible);
        if (placement_state.seen_gpus != NULL && task.gpu_count > 0)
            memcpy(placement_state.seen_gpus[index], task.gpu_ids[0], PCI_ID_BYTES);
    }
    rc = write_variables(spank, &task, kept, err);
    if (rc == HVD_OK && placement_state.options.bind.verbose)
        print_placement(id, index, &task, kept, &visible);
    return rc;
}

int placement_apply(spank_t spank, const struct task_id *id, struct hvd_error *err)
{
    int index = -1;
    if (!placement_state.options.placed)
        return HVD_OK;
    if (spank_get_item(spank, S_TASK_ID, &index) != ESPANK_SUCCESS || index < 0)
        return error_set(err, HVD_ERR_SYSTEM, "Slurm does not say which task of this node this is");
    if (placement_state.status != HVD_OK)
        return report_failure(index, err);
    unset_outer_variables(spank);
    if (placement_state.answer == NULL)
        return mark_placed(spank, err);
    if (index >= placement_state.answer->head.task_count)
        return error_set(err, HVD_ERR_SYSTEM, "task %d of this node was not expected; there are %d", index,
                         placement_state.answer->head.task_count);
    return place_task(spank, id, index, err);
}
