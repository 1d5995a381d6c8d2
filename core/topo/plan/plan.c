/* plan.c: which cores, memory, GPUs and network cards each task of a node gets, stage after stage. */
#include "topo/plan/plan_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Take in the request ---- */

/* Levels with fewer domains are around those with more; of equals NUMA is before L3, and packages before
 * both. */
static void sort_levels(struct placing *placing)
{
    const int *counts = placing->machine->domain_count;
    enum domain_kind *levels = placing->levels;
    for (int i = 0; i < DOMAIN_KINDS; i++) {
        int at = i;
        while (at > 0 && counts[levels[at - 1]] > counts[i]) {
            levels[at] = levels[at - 1];
            at--;
        }
        levels[at] = (enum domain_kind)i;
    }
}

static int begin(struct placing *placing, struct hvd_error *err)
{
    const struct machine *machine = placing->machine;
    const struct request *request = placing->request;
    struct plan *plan = placing->plan;
    plan->granted = request->cpus != NULL ? *request->cpus : machine->allowed;
    placing->mems = request->mems != NULL ? *request->mems : machine->allowed_mems;
    plan->task_count = request->task_count;
    plan->tasks = calloc((size_t)request->task_count, sizeof(*plan->tasks));
    placing->parties = calloc((size_t)request->task_count, sizeof(*placing->parties));
    for (int i = 0; i <= DOMAIN_KINDS; i++)
        placing->counts[i] = calloc((size_t)machine->core_count, sizeof(int));
    for (int i = 0; i <= DOMAIN_KINDS; i++)
        if (placing->counts[i] == NULL || plan->tasks == NULL || placing->parties == NULL)
            return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", request->task_count);
    sort_levels(placing);
    return HVD_OK;
}

static int take_settled(struct placing *placing, int index, struct hvd_error *err)
{
    const struct request_task *from = &placing->request->tasks[index];
    struct party *party = &placing->parties[index];
    char mask[128], granted[128];
    party->settled = from->cpus != NULL;
    if (party->settled)
        party->cpus = *from->cpus;
    if (party->settled &&
        (bitset_empty(&party->cpus) || !bitset_inside(&party->cpus, &placing->plan->granted)))
        return error_set(
            err, HVD_ERR_INVALID, "task %d is to have CPUs %s (%s), but %s are granted on this node", index,
            bitset_text(&party->cpus, mask, sizeof(mask)), from->why != NULL ? from->why : "settled before",
            bitset_text(&placing->plan->granted, granted, sizeof(granted)));
    for (int i = 0; from->gpus != NULL && i < from->gpu_count && i < PLAN_TASK_GPUS; i++) {
        if (from->gpus[i] < 0 || from->gpus[i] >= placing->machine->gpu_count)
            return error_set(err, HVD_ERR_INVALID, "task %d is to have GPU %d (%s), but there are %d", index,
                             from->gpus[i], from->why != NULL ? from->why : "settled before",
                             placing->machine->gpu_count);
        party->gpus[party->gpu_count++] = from->gpus[i];
    }
    return HVD_OK;
}

static int make_parties(struct placing *placing, int count, struct hvd_error *err)
{
    int rc = HVD_OK;
    placing->party_count = count;
    for (int i = 0; i < count; i++)
        placing->parties[i].first_unit = FREE;
    for (int i = 0; rc == HVD_OK && placing->request->tasks != NULL && i < count; i++)
        rc = take_settled(placing, i, err);
    return rc;
}

/* ---- Give ---- */

static int give_to_tasks(struct placing *placing, struct hvd_error *err)
{
    int rc = make_parties(placing, placing->request->task_count, err);
    if (rc != HVD_OK)
        return rc;
    gpus_give(placing);
    rc = cores_give(placing, 0, err);
    for (int i = 0; rc == HVD_OK && i < placing->party_count; i++) {
        struct plan_task *task = &placing->plan->tasks[i];
        const struct party *party = &placing->parties[i];
        task->cpus = party->cpus;
        task->set = -1;
        task->gpu_count = party->gpu_count;
        memcpy(task->gpus, party->gpus, sizeof(task->gpus));
    }
    return rc;
}

static int give_to_sets(struct placing *placing, struct hvd_error *err)
{
    struct sets sets;
    int rc = HVD_OK;
    if (placing->request->tasks != NULL)
        rc = error_set(err, HVD_ERR_INVALID,
                       "--hvd-rs: the tasks of this node are bound already; give --hvd-bind=auto,force to "
                       "bind them anew, or no --hvd-rs");
    if (rc == HVD_OK)
        rc = sets_size(placing, &sets, err);
    if (rc == HVD_OK)
        rc = make_parties(placing, sets.count, err);
    if (rc != HVD_OK)
        return rc;
    sets_give_gpus(placing, &sets);
    rc = cores_give(placing, sets.cores, err);
    return rc == HVD_OK ? sets_expand(placing, &sets, err) : rc;
}

/* ---- Complete ---- */

/* How many tasks run on each CPU, into [users] of BITSET_BITS. */
static void count_users(const struct plan *plan, int *users)
{
    for (int i = 0; i < plan->task_count; i++)
        for (int cpu = bitset_next(&plan->tasks[i].cpus, 0); cpu >= 0;
             cpu = bitset_next(&plan->tasks[i].cpus, cpu + 1))
            users[cpu]++;
}

/* A thread for each CPU that is its own; of shared ones its part. */
static void complete_cpus(const struct placing *placing, struct plan_task *task, const int *users)
{
    int most = 1, count = bitset_count(&task->cpus);
    for (int cpu = bitset_next(&task->cpus, 0); cpu >= 0; cpu = bitset_next(&task->cpus, cpu + 1))
        if (users[cpu] > most)
            most = users[cpu];
    task->shared = most > 1;
    task->threads = count / most > 0 ? count / most : 1;
    task->bound = !bitset_equal(&task->cpus, &placing->plan->granted);
    snprintf(task->places, sizeof(task->places), "%s", task->bound && !task->shared ? "threads" : "");
    for (int i = 0; i < placing->machine->core_count; i++) {
        const struct machine_core *core = &placing->machine->cores[i];
        bool has = false;
        for (int k = 0; k < core->cpu_count; k++)
            has = has || bitset_has(&task->cpus, core->cpus[k]);
        task->core_count += has;
    }
    task->mems = machine_mems_of(placing->machine, &task->cpus);
    bitset_and(&task->mems, &placing->mems);
    if (bitset_empty(&task->mems))
        task->mems = placing->mems;
}

static void complete_gpus(const struct placing *placing, struct plan_task *task)
{
    for (int i = 0; i < task->gpu_count; i++) {
        const struct machine_pci *pci = &placing->machine->gpus[task->gpus[i]].pci;
        snprintf(task->gpu_ids[i], PCI_ID_BYTES, "%s", pci->id);
        task->gpu_amd = pci->vendor == MACHINE_VENDOR_AMD;
        for (int k = 0; k < placing->gpu_count; k++)
            if (placing->gpus[k] == task->gpus[i])
                task->devices[i] = k;
    }
}

static int complete(struct placing *placing, struct hvd_error *err)
{
    struct plan *plan = placing->plan;
    int *users = calloc(BITSET_BITS, sizeof(*users));
    if (users == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", plan->task_count);
    count_users(plan, users);
    for (int i = 0; i < plan->task_count; i++) {
        complete_cpus(placing, &plan->tasks[i], users);
        complete_gpus(placing, &plan->tasks[i]);
        bitset_or(&plan->used, &plan->tasks[i].cpus);
    }
    free(users);
    plan->policy = placing->request->bind.policy;
    if (plan->policy == BIND_AUTO && plan->tasks[0].gpu_count > 0)
        plan->policy = BIND_GPU;
    return HVD_OK;
}

/* ---- The whole ---- */

static int place(struct placing *placing, struct hvd_error *err)
{
    int rc = begin(placing, err);
    if (rc == HVD_OK)
        rc = units_make(placing, err);
    if (rc == HVD_OK)
        rc = gpus_grant(placing, err);
    if (rc == HVD_OK)
        rc = placing->request->rs == NULL ? give_to_tasks(placing, err) : give_to_sets(placing, err);
    if (rc == HVD_OK)
        rc = complete(placing, err);
    if (rc == HVD_OK)
        rc = nics_give(placing, err);
    if (rc == HVD_OK)
        words_write(placing);
    return rc;
}

int plan_create(const struct machine *machine, const struct request *request, struct plan **planp,
                struct hvd_error *err)
{
    struct request wanted = *request;
    struct placing placing = {.machine = machine, .request = &wanted};
    if (request->rs != NULL && request->bind.policy == BIND_NONE)
        wanted.bind.policy = BIND_AUTO; /* tasks are held in their resource sets */
    if (request->task_count < 1 || request->task_count > PLAN_MAX_TASKS)
        return error_set(err, HVD_ERR_INVALID, "%d tasks are to be placed on one node; expected 1 to %d",
                         request->task_count, PLAN_MAX_TASKS);
    placing.plan = calloc(1, sizeof(*placing.plan));
    if (placing.plan == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", request->task_count);
    int rc = place(&placing, err);
    for (int i = 0; i <= DOMAIN_KINDS; i++)
        free(placing.counts[i]);
    free(placing.parties);
    free(placing.units);
    if (rc != HVD_OK) {
        plan_destroy(placing.plan);
        return rc;
    }
    *planp = placing.plan;
    return HVD_OK;
}

void plan_destroy(struct plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->tasks);
    free(plan);
}
