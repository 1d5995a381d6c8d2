/* plan_reasons.c: write the reasons of a plan: why each task has what it has, and notes about the whole
 * plan. */
#include "topo/plan/plan_state.h"

#include <string.h>

#include "topo/path.h"

/* ---- Cores ---- */

static int granted_cores(const struct plan_builder *builder, const struct bitmap *cpus)
{
    int count = 0;
    for (int i = 0; i < builder->machine->core_count; i++) {
        const struct machine_core *core = &builder->machine->cores[i];
        bool granted = false;
        for (int k = 0; k < core->cpu_count; k++)
            granted = granted || (bitmap_is_set(&builder->plan->granted, core->cpus[k]) &&
                                  bitmap_is_set(cpus, core->cpus[k]));
        count += granted;
    }
    return count;
}

static const struct machine_domain *domain_around(const struct machine *machine, enum domain_kind kind,
                                                  const struct bitmap *cpus)
{
    for (int i = 0; i < machine->domain_count[kind]; i++)
        if (bitmap_is_included(cpus, &machine->domains[kind][i].cpus))
            return &machine->domains[kind][i];
    return NULL;
}

/* Write "8 of 32 cores of NUMA node 0", naming the smallest domain that holds the cores; of equally small
 * ones, the last kind in the table below. */
static void write_cores(const struct plan_builder *builder, struct plan_task *task)
{
    static const struct {
        enum domain_kind kind;
        const char *name;
    } kinds[] = {{DOMAIN_L3, "L3 cache"}, {DOMAIN_PACKAGE, "package"}, {DOMAIN_NUMA, "NUMA node"}};
    const struct machine *machine = builder->machine;
    const struct machine_domain *best = NULL;
    const char *name = "";
    char mems[64];
    for (int i = machine->has_l3 ? 0 : 1; i < 3; i++) {
        const struct machine_domain *domain = domain_around(machine, kinds[i].kind, &task->cpus);
        if (domain == NULL ||
            (best != NULL && granted_cores(builder, &domain->cpus) > granted_cores(builder, &best->cpus)))
            continue;
        best = domain;
        name = kinds[i].name;
    }
    int of = granted_cores(builder, best != NULL ? &best->cpus : &machine->cpus);
    text_append(task->why, sizeof(task->why), "%d of %d core%s", task->core_count, of, of == 1 ? "" : "s");
    if (best != NULL)
        text_append(task->why, sizeof(task->why), " of %s %d", name, best->os_index);
    if (domain_around(machine, DOMAIN_NUMA, &task->cpus) == NULL)
        text_append(task->why, sizeof(task->why), " in NUMA nodes %s",
                    bitmap_text(&task->mems, mems, sizeof(mems)));
}

/* ---- A task ---- */

static void write_gpu(const struct plan_builder *builder, struct plan_task *task)
{
    static const char *const words[] = {"near", "in the same package as", "far from"};
    if (task->gpu_count == 0)
        return;
    const struct pci_device *pci = &builder->machine->gpus[task->gpus[0]].pci;
    text_append(task->why, sizeof(task->why), ", %s GPU %s",
                words[path_to_cpus(builder->machine, pci, &task->cpus)], pci->id);
    if (task->gpu_count > 1)
        text_append(task->why, sizeof(task->why), " and %d more", task->gpu_count - 1);
}

static void write_nic(const struct plan_builder *builder, struct plan_task *task)
{
    static const char *const words[] = {"near these cores", "in the same package", "in another package"};
    if (task->nic_count == 0)
        return;
    const struct machine *machine = builder->machine;
    const struct pci_device *pci = &machine->nics[task->nics[0]].pci;
    text_append(task->why, sizeof(task->why), "; NIC %s ", task->nic_names[0]);
    if (pci->id[0] == 0)
        text_append(task->why, sizeof(task->why), "of no PCI device");
    else if (task->gpu_count > 0)
        text_append(task->why, sizeof(task->why), "%s",
                    path_description(path_between(&machine->gpus[task->gpus[0]].pci, pci)));
    else
        text_append(task->why, sizeof(task->why), "%s", words[path_to_cpus(machine, pci, &task->cpus)]);
}

static void write_task(const struct plan_builder *builder, int index)
{
    struct plan_task *task = &builder->plan->tasks[index];
    const struct request_task *preset =
        builder->request->tasks == NULL ? NULL : &builder->request->tasks[index];
    if (preset != NULL && preset->why != NULL)
        text_append(task->why, sizeof(task->why), "%s: ", preset->why);
    else if (builder->request->bind.policy == BIND_NONE)
        text_append(task->why, sizeof(task->why), "not bound: ");
    if (task->set >= 0)
        text_append(task->why, sizeof(task->why), "resource set %d: ", task->set);
    write_cores(builder, task);
    if (task->shared)
        text_append(task->why, sizeof(task->why), ", shared with other tasks");
    write_gpu(builder, task);
    write_nic(builder, task);
}

/* ---- The plan ---- */

static const char *plural(int count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

static void write_sharing(struct plan_builder *builder, int cores)
{
    const struct plan_request *request = builder->request;
    struct plan *plan = builder->plan;
    if (request->bind.policy != BIND_NONE && request->tasks == NULL && plan->task_count > cores)
        text_append(plan->note, sizeof(plan->note),
                    "%d tasks share %d %s: start fewer tasks, or ask for more cores. ", plan->task_count,
                    cores, plural(cores, "core", "cores"));
    if (request->rs == NULL && plan->tasks[0].gpu_count > 0 && plan->task_count > builder->gpu_count)
        text_append(plan->note, sizeof(plan->note), "%d tasks share %d %s. ", plan->task_count,
                    builder->gpu_count, plural(builder->gpu_count, "GPU", "GPUs"));
}

static void write_idle(struct plan_builder *builder, int granted, int reserved)
{
    struct plan *plan = builder->plan;
    int idle = granted - reserved - granted_cores(builder, &plan->used);
    const char *why = "as all tasks have equal shares";
    if (builder->request->rs != NULL)
        why = "in no resource set or given to none of its tasks";
    else if (plan->policy == BIND_GPU)
        why = "as all tasks have equal shares near their GPUs; --hvd-bind=socket takes them of the whole "
              "package";
    if (reserved > 0)
        text_append(plan->note, sizeof(plan->note), "%d %s kept for the system. ", reserved,
                    plural(reserved, "core is", "cores are"));
    if (idle > 0)
        text_append(plan->note, sizeof(plan->note), "%d of %d granted cores %s idle, %s. ", idle, granted,
                    plural(idle, "is", "are"), why);
}

static void write_note(struct plan_builder *builder)
{
    struct plan *plan = builder->plan;
    int granted = granted_cores(builder, &builder->machine->cpus);
    int reserved = granted_cores(builder, &plan->reserved);
    write_sharing(builder, granted - reserved);
    write_idle(builder, granted, reserved);
    size_t used = strlen(plan->note);
    if (used > 0 && plan->note[used - 1] == ' ')
        plan->note[used - 1] = 0;
}

void reasons_write(struct plan_builder *builder)
{
    for (int i = 0; i < builder->plan->task_count; i++)
        write_task(builder, i);
    write_note(builder);
}
