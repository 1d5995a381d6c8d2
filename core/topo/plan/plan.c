/* plan.c: which cores, memory, GPUs and network cards each task of a node gets, stage after stage. */
#include "topo/plan/plan_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The request ---- */

static int begin_plan(struct plan_builder *builder, struct hvd_error *err)
{
    const struct machine *machine = builder->machine;
    const struct plan_request *request = builder->request;
    struct plan *plan = builder->plan;
    plan->granted = request->cpus != NULL ? *request->cpus : machine->allowed;
    builder->mems = request->mems != NULL ? *request->mems : machine->allowed_mems;
    plan->task_count = request->task_count;
    plan->tasks = calloc((size_t)request->task_count, sizeof(*plan->tasks));
    builder->consumers = calloc((size_t)request->task_count, sizeof(*builder->consumers));
    for (int i = 0; i <= DOMAIN_KINDS; i++)
        builder->counts[i] = calloc((size_t)machine->core_count, sizeof(int));
    for (int i = 0; i <= DOMAIN_KINDS; i++)
        if (builder->counts[i] == NULL || plan->tasks == NULL || builder->consumers == NULL)
            return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", request->task_count);
    machine_sort_levels(machine, builder->levels);
    return HVD_OK;
}

static int check_preset(struct plan_builder *builder, int index, struct hvd_error *err)
{
    const struct request_task *from = &builder->request->tasks[index];
    struct consumer *consumer = &builder->consumers[index];
    char mask[128], granted[128];
    consumer->preset = from->cpus != NULL;
    if (consumer->preset)
        consumer->cpus = *from->cpus;
    if (consumer->preset &&
        (bitmap_is_empty(&consumer->cpus) || !bitmap_is_included(&consumer->cpus, &builder->plan->granted)))
        return error_set(
            err, HVD_ERR_INVALID, "task %d is to have CPUs %s (%s), but %s are granted on this node", index,
            bitmap_text(&consumer->cpus, mask, sizeof(mask)), from->why != NULL ? from->why : "preset before",
            bitmap_text(&builder->plan->granted, granted, sizeof(granted)));
    for (int i = 0; from->gpus != NULL && i < from->gpu_count && i < PLAN_TASK_GPUS; i++) {
        if (from->gpus[i] < 0 || from->gpus[i] >= builder->machine->gpu_count)
            return error_set(err, HVD_ERR_INVALID, "task %d is to have GPU %d (%s), but there are %d", index,
                             from->gpus[i], from->why != NULL ? from->why : "preset before",
                             builder->machine->gpu_count);
        consumer->gpus[consumer->gpu_count++] = from->gpus[i];
    }
    return HVD_OK;
}

static int make_consumers(struct plan_builder *builder, int count, struct hvd_error *err)
{
    int rc = HVD_OK;
    builder->consumer_count = count;
    for (int i = 0; i < count; i++)
        builder->consumers[i].first_unit = UNIT_FREE;
    for (int i = 0; rc == HVD_OK && builder->request->tasks != NULL && i < count; i++)
        rc = check_preset(builder, i, err);
    return rc;
}

/* ---- Assign ---- */

static int assign_to_tasks(struct plan_builder *builder, struct hvd_error *err)
{
    int rc = make_consumers(builder, builder->request->task_count, err);
    if (rc != HVD_OK)
        return rc;
    gpus_assign(builder);
    rc = cores_assign(builder, 0, err);
    for (int i = 0; rc == HVD_OK && i < builder->consumer_count; i++) {
        struct plan_task *task = &builder->plan->tasks[i];
        const struct consumer *consumer = &builder->consumers[i];
        task->cpus = consumer->cpus;
        task->set = -1;
        task->gpu_count = consumer->gpu_count;
        memcpy(task->gpus, consumer->gpus, sizeof(task->gpus));
    }
    return rc;
}

static int assign_to_sets(struct plan_builder *builder, struct hvd_error *err)
{
    struct rs_layout sets;
    int rc = HVD_OK;
    if (builder->request->tasks != NULL)
        rc = error_set(err, HVD_ERR_INVALID,
                       "--hvd-rs: the tasks of this node are bound already; give --hvd-bind=auto,force to "
                       "bind them anew, or no --hvd-rs");
    if (rc == HVD_OK)
        rc = rs_layout_compute(builder, &sets, err);
    if (rc == HVD_OK)
        rc = make_consumers(builder, sets.count, err);
    if (rc != HVD_OK)
        return rc;
    rs_assign_gpus(builder, &sets);
    rc = cores_assign(builder, sets.cores, err);
    return rc == HVD_OK ? rs_assign_tasks(builder, &sets, err) : rc;
}

/* ---- Complete ---- */

/* Count the tasks on each CPU, into [users] of BITMAP_BITS. */
static void count_users(const struct plan *plan, int *users)
{
    for (int i = 0; i < plan->task_count; i++)
        for (int cpu = bitmap_find_next(&plan->tasks[i].cpus, 0); cpu >= 0;
             cpu = bitmap_find_next(&plan->tasks[i].cpus, cpu + 1))
            users[cpu]++;
}

/* Set threads: one for each CPU that is the task's own. Tasks that share CPUs divide the threads among
 * them. */
static void complete_cpus(const struct plan_builder *builder, struct plan_task *task, const int *users)
{
    int most = 1, count = bitmap_weight(&task->cpus);
    for (int cpu = bitmap_find_next(&task->cpus, 0); cpu >= 0; cpu = bitmap_find_next(&task->cpus, cpu + 1))
        if (users[cpu] > most)
            most = users[cpu];
    task->shared = most > 1;
    task->threads = count / most > 0 ? count / most : 1;
    task->bound = !bitmap_is_equal(&task->cpus, &builder->plan->granted);
    snprintf(task->places, sizeof(task->places), "%s", task->bound && !task->shared ? "threads" : "");
    for (int i = 0; i < builder->machine->core_count; i++) {
        const struct machine_core *core = &builder->machine->cores[i];
        bool has = false;
        for (int k = 0; k < core->cpu_count; k++)
            has = has || bitmap_is_set(&task->cpus, core->cpus[k]);
        task->core_count += has;
    }
    task->mems = machine_mems_of(builder->machine, &task->cpus);
    bitmap_and(&task->mems, &builder->mems);
    if (bitmap_is_empty(&task->mems))
        task->mems = builder->mems;
}

static void complete_gpus(const struct plan_builder *builder, struct plan_task *task)
{
    for (int i = 0; i < task->gpu_count; i++) {
        const struct pci_device *pci = &builder->machine->gpus[task->gpus[i]].pci;
        snprintf(task->gpu_ids[i], PCI_ID_BYTES, "%s", pci->id);
        task->gpu_amd = pci->vendor == MACHINE_VENDOR_AMD;
        for (int k = 0; k < builder->gpu_count; k++)
            if (builder->gpus[k] == task->gpus[i])
                task->devices[i] = k;
    }
}

static int complete(struct plan_builder *builder, struct hvd_error *err)
{
    struct plan *plan = builder->plan;
    int *users = calloc(BITMAP_BITS, sizeof(*users));
    if (users == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", plan->task_count);
    count_users(plan, users);
    for (int i = 0; i < plan->task_count; i++) {
        complete_cpus(builder, &plan->tasks[i], users);
        complete_gpus(builder, &plan->tasks[i]);
        bitmap_or(&plan->used, &plan->tasks[i].cpus);
    }
    free(users);
    plan->policy = builder->request->bind.policy;
    if (plan->policy == BIND_AUTO && plan->tasks[0].gpu_count > 0)
        plan->policy = BIND_GPU;
    return HVD_OK;
}

/* ---- Place ---- */

static int place_tasks(struct plan_builder *builder, struct hvd_error *err)
{
    int rc = begin_plan(builder, err);
    if (rc == HVD_OK)
        rc = units_make(builder, err);
    if (rc == HVD_OK)
        rc = gpus_collect_granted(builder, err);
    if (rc == HVD_OK)
        rc = builder->request->rs == NULL ? assign_to_tasks(builder, err) : assign_to_sets(builder, err);
    if (rc == HVD_OK)
        rc = complete(builder, err);
    if (rc == HVD_OK)
        rc = nics_assign(builder, err);
    if (rc == HVD_OK)
        reasons_write(builder);
    return rc;
}

int plan_create(const struct machine *machine, const struct plan_request *request, struct plan **planp,
                struct hvd_error *err)
{
    struct plan_request wanted = *request;
    struct plan_builder builder = {.machine = machine, .request = &wanted};
    if (request->rs != NULL && request->bind.policy == BIND_NONE)
        wanted.bind.policy = BIND_AUTO; /* tasks are bound to their resource sets all the same */
    if (request->task_count < 1 || request->task_count > PLAN_MAX_TASKS)
        return error_set(err, HVD_ERR_INVALID, "%d tasks are to be placed on one node; expected 1 to %d",
                         request->task_count, PLAN_MAX_TASKS);
    builder.plan = calloc(1, sizeof(*builder.plan));
    if (builder.plan == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", request->task_count);
    int rc = place_tasks(&builder, err);
    for (int i = 0; i <= DOMAIN_KINDS; i++)
        free(builder.counts[i]);
    free(builder.consumers);
    free(builder.units);
    if (rc != HVD_OK) {
        plan_destroy(builder.plan);
        return rc;
    }
    *planp = builder.plan;
    return HVD_OK;
}

void plan_destroy(struct plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->tasks);
    free(plan);
}
