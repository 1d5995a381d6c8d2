/* plan_nics.c: choose the network cards of each task by NCCL's rule, so that hvd and NCCL agree. */
#include "topo/plan/plan_state.h"

#include <stdio.h>
#include <stdlib.h>

#include "topo/path.h"

/* How good a card is for a GPU or for cores: higher bandwidth wins, then the shorter distance. */
struct nic_score {
    int64_t mbps;
    int far;
};

static bool is_better(struct nic_score a, struct nic_score b)
{
    return a.mbps != b.mbps ? a.mbps > b.mbps : a.far < b.far;
}

static struct nic_score score_for_gpu(const struct machine *machine, int gpu, int nic)
{
    return (struct nic_score){path_mbps(machine, &machine->gpus[gpu], &machine->nics[nic]),
                              path_between(&machine->gpus[gpu].pci, &machine->nics[nic].pci)};
}

static struct nic_score score_for_cpus(const struct machine *machine, const struct bitmap *cpus, int nic)
{
    int far = path_to_cpus(machine, &machine->nics[nic].pci, cpus);
    int64_t mbps = nic_mbps(&machine->nics[nic]);
    if (far > 0 && machine->numa_mbps > 0 && machine->numa_mbps < mbps)
        mbps = machine->numa_mbps;
    return (struct nic_score){mbps, far};
}

/* A list of NICs, by their indexes. */
struct nic_list {
    int count;
    int nics[NIC_MAX];
};

/* Find the usable NICs that are best for a GPU, or for [cpus] if [gpu] is -1: all that are equally good. */
static void find_best_nics(const struct machine *machine, int gpu, const struct bitmap *cpus,
                           struct nic_list *choice)
{
    struct nic_score best = {0, 0};
    choice->count = 0;
    for (int i = 0; i < machine->nic_count; i++) {
        if (machine->nics[i].exclusion != NIC_NOT_EXCLUDED)
            continue;
        struct nic_score score = gpu >= 0 ? score_for_gpu(machine, gpu, i) : score_for_cpus(machine, cpus, i);
        if (choice->count > 0 && is_better(best, score))
            continue;
        if (choice->count == 0 || is_better(score, best))
            choice->count = 0;
        best = score;
        choice->nics[choice->count++] = i;
    }
}

static void add_nic(const struct machine *machine, struct plan_task *task, int nic)
{
    for (int i = 0; i < task->nic_count; i++)
        if (task->nics[i] == nic)
            return;
    if (task->nic_count == PLAN_TASK_NICS)
        return;
    snprintf(task->nic_names[task->nic_count], NIC_VERBS_BYTES, "%s", nic_name(&machine->nics[nic]));
    task->nics[task->nic_count++] = nic;
}

/* ---- Near GPUs ---- */

/* Is [gpu] the first GPU of some task? For NCCL, only these are part of the job. */
static bool is_used(const struct plan *plan, int gpu)
{
    for (int i = 0; i < plan->task_count; i++)
        if (plan->tasks[i].gpu_count > 0 && plan->tasks[i].gpus[0] == gpu)
            return true;
    return false;
}

/* The number of the job's GPUs that have the best path to [nic]. */
static int count_local(const struct plan_builder *builder, int nic)
{
    struct nic_score best = {0, 0};
    int count = 0;
    for (int gpu = 0; gpu < builder->machine->gpu_count; gpu++) {
        if (!is_used(builder->plan, gpu))
            continue;
        struct nic_score score = score_for_gpu(builder->machine, gpu, nic);
        if (count > 0 && is_better(best, score))
            continue;
        if (count == 0 || is_better(score, best))
            count = 0;
        best = score;
        count++;
    }
    return count;
}

/* The number of a GPU among the granted ones as the driver counts: by PCI id. */
static int driver_number(const struct plan_builder *builder, int gpu)
{
    int number = 0;
    for (int i = 0; i < builder->gpu_count; i++)
        number += builder->gpus[i] < gpu;
    return number;
}

/* Reverse the bits, so that neighbours get cards far apart. */
static int reverse_bits(int value, int power)
{
    int mirrored = 0;
    for (int bit = 1, other = power >> 1; bit < power; bit <<= 1, other >>= 1)
        if ((value & bit) != 0)
            mirrored |= other;
    return mirrored;
}

static void assign_near_gpu(const struct plan_builder *builder, struct plan_task *task, int gpu,
                            struct nic_list *choice)
{
    find_best_nics(builder->machine, gpu, NULL, choice);
    int local = choice->count > 0 ? count_local(builder, choice->nics[0]) : 0;
    if (local == 0)
        return;
    int each = (choice->count + local - 1) / local;
    int start = driver_number(builder, gpu) % local;
    if ((choice->count & (choice->count - 1)) == 0)
        start = reverse_bits(start, choice->count);
    for (int i = 0; i < each; i++)
        add_nic(builder->machine, task, choice->nics[(start + i) % choice->count]);
}

/* ---- Near cores ---- */

/* The cards that are best for a task: how many, the first and the last of them. */
struct nics_near_cores {
    int count, first, last;
};

/* Tasks for which the same cards are best take them in turn. If there are more cards than tasks, each task
 * gets its share of them. */
static void share_nics(const struct plan_builder *builder, int index, const struct nics_near_cores *near)
{
    const struct nics_near_cores *own = &near[index];
    int sharers = 0, place = 0;
    struct nic_list choice;
    for (int i = 0; i < builder->plan->task_count; i++) {
        if (near[i].count != own->count || near[i].first != own->first || near[i].last != own->last)
            continue;
        place += i < index;
        sharers++;
    }
    struct plan_task *task = &builder->plan->tasks[index];
    find_best_nics(builder->machine, -1, &task->cpus, &choice);
    int first = choice.count > sharers ? place * choice.count / sharers : place % choice.count;
    int last = choice.count > sharers ? (place + 1) * choice.count / sharers : first + 1;
    for (int i = first; i < last; i++)
        add_nic(builder->machine, task, choice.nics[i]);
}

int nics_assign(struct plan_builder *builder, struct hvd_error *err)
{
    struct plan *plan = builder->plan;
    struct nic_list choice;
    struct nics_near_cores *near = calloc((size_t)plan->task_count, sizeof(*near));
    if (near == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", plan->task_count);
    for (int i = 0; i < plan->task_count; i++) {
        struct plan_task *task = &plan->tasks[i];
        for (int k = 0; k < task->gpu_count; k++)
            assign_near_gpu(builder, task, task->gpus[k], &choice);
        find_best_nics(builder->machine, -1, &task->cpus, &choice);
        if (task->gpu_count == 0 && choice.count > 0)
            near[i] = (struct nics_near_cores){choice.count, choice.nics[0], choice.nics[choice.count - 1]};
    }
    for (int i = 0; i < plan->task_count; i++)
        if (near[i].count > 0)
            share_nics(builder, i, near);
    free(near);
    return HVD_OK;
}
