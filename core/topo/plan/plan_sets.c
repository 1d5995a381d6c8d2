/* plan_sets.c: resource sets: their size, and the part of its set that each task gets. */
#include "topo/plan/plan_state.h"

#include <string.h>

static int tasks_of(const struct rs_options *rs)
{
    return rs->tasks == RS_UNSET ? 1 : rs->tasks;
}

/* Check that each of [count] sets can have [asked] of [granted]. "all" is an even share. */
static int check_amount(int asked, int granted, const struct rs_layout *sets, const char *what,
                        struct hvd_error *err)
{
    if (asked < 1 || (long long)asked * sets->count > granted)
        return error_set(err, HVD_ERR_INVALID,
                         "--hvd-rs: %d resource set%s of %d %s%s do not fit on this node, where %d %s "
                         "granted; ask for less, or start fewer tasks a node",
                         sets->count, sets->count == 1 ? "" : "s", asked < 1 ? 1 : asked, what,
                         asked > 1 ? "s" : "", granted, granted == 1 ? "is" : "are");
    return HVD_OK;
}

int rs_layout_compute(const struct plan_builder *builder, struct rs_layout *sets, struct hvd_error *err)
{
    const struct rs_options *rs = builder->request->rs;
    int tasks = tasks_of(rs);
    sets->count = (builder->request->task_count + tasks - 1) / tasks;
    int shares = rs->rs_per_host == RS_UNSET ? sets->count : rs->rs_per_host;
    if (sets->count > shares)
        return error_set(err, HVD_ERR_INVALID,
                         "--hvd-rs: %d tasks on this node are %d resource sets of %d, but rs_per_host is %d; "
                         "start fewer tasks a node",
                         builder->request->task_count, sets->count, tasks, shares);
    sets->cores = rs->cpus == RS_UNSET ? 1 : rs->cpus == RS_ALL ? builder->unit_count / shares : rs->cpus;
    sets->gpus = rs->gpus == RS_ALL ? builder->gpu_count / shares : rs->gpus;
    int rc = check_amount(sets->cores, builder->unit_count, sets, "core", err);
    if (rc == HVD_OK && rs->gpus != 0)
        rc = check_amount(sets->gpus, builder->gpu_count, sets, "GPU", err);
    if (rc == HVD_OK && rs->bind == RS_BIND_PACKED && (long long)rs->bind_cpus * tasks > sets->cores)
        rc = error_set(err, HVD_ERR_INVALID,
                       "--hvd-rs: bind:packed:%d of %d task%s needs resource sets of %lld cores, they have "
                       "%d; give cpus:%lld",
                       rs->bind_cpus, tasks, tasks == 1 ? "" : "s", (long long)rs->bind_cpus * tasks,
                       sets->cores, (long long)rs->bind_cpus * tasks);
    return rc;
}

void rs_assign_gpus(struct plan_builder *builder, const struct rs_layout *sets)
{
    for (int i = 0; i < builder->consumer_count; i++)
        for (int k = 0; k < sets->gpus; k++)
            builder->consumers[i].gpus[builder->consumers[i].gpu_count++] = builder->gpus[i * sets->gpus + k];
}

/* Does a domain of [kind] hold all of [cpus]? */
static bool in_one_domain(const struct plan_builder *builder, const struct bitmap *cpus,
                          enum domain_kind kind)
{
    for (int i = 0; i < builder->machine->domain_count[kind]; i++)
        if (bitmap_is_included(cpus, &builder->machine->domains[kind][i].cpus))
            return true;
    return false;
}

static bool near_gpus(const struct plan_builder *builder, const struct consumer *consumer)
{
    struct bitmap near = {{0}};
    for (int i = 0; i < consumer->gpu_count; i++)
        bitmap_or(&near, &builder->machine->gpus[consumer->gpus[i]].pci.cpus);
    return consumer->gpu_count == 0 || bitmap_is_included(&consumer->cpus, &near);
}

/* A latency priority in capital letters is a condition: fail if the set does not meet it. */
static int check_latency(const struct plan_builder *builder, int set, struct hvd_error *err)
{
    const struct rs_options *rs = builder->request->rs;
    const struct consumer *consumer = &builder->consumers[set];
    for (int i = 0; rs->latency_strict && i < rs->latency_count; i++) {
        if (rs->latency[i] == RS_GPU_CPU && !near_gpus(builder, consumer))
            return error_set(err, HVD_ERR_INVALID,
                             "--hvd-rs: not all cores of resource set %d can be near its GPUs, as GPU-CPU "
                             "demands; ask for fewer cores, or "
                             "give gpu-cpu",
                             set);
        if (rs->latency[i] == RS_CPU_MEM && !in_one_domain(builder, &consumer->cpus, DOMAIN_NUMA))
            return error_set(err, HVD_ERR_INVALID,
                             "--hvd-rs: the cores of resource set %d cannot be in one NUMA node, as CPU-MEM "
                             "demands; ask for fewer cores, or "
                             "give cpu-mem",
                             set);
        if (rs->latency[i] == RS_CPU_CPU && !in_one_domain(builder, &consumer->cpus, DOMAIN_PACKAGE))
            return error_set(err, HVD_ERR_INVALID,
                             "--hvd-rs: the cores of resource set %d cannot be in one package, as CPU-CPU "
                             "demands; ask for fewer cores, or "
                             "give cpu-cpu",
                             set);
    }
    return HVD_OK;
}

/* Give the task at [place] its cores of the set: all of them, or [rs->bind_cpus] of them. */
static void assign_set_cores(const struct plan_builder *builder, int set, int place, struct bitmap *cpus)
{
    const struct rs_options *rs = builder->request->rs;
    int nth = 0;
    *cpus = (struct bitmap){{0}};
    for (int i = 0; i < builder->unit_count; i++) {
        const struct unit *unit = &builder->units[i];
        if (unit->owner != set)
            continue;
        bool its = rs->bind != RS_BIND_PACKED || nth / rs->bind_cpus == place;
        for (int k = 0; its && k < unit->cpu_count; k++)
            bitmap_set(cpus, unit->cpus[k]);
        nth++;
    }
}

int rs_assign_tasks(struct plan_builder *builder, const struct rs_layout *sets, struct hvd_error *err)
{
    for (int set = 0; set < sets->count; set++) {
        int rc = check_latency(builder, set, err);
        if (rc != HVD_OK)
            return rc;
    }
    for (int i = 0; i < builder->request->task_count; i++) {
        struct plan_task *task = &builder->plan->tasks[i];
        int place = 0;
        rs_locate_rank(builder->request->rs, sets->count, i, &task->set, &place);
        assign_set_cores(builder, task->set, place, &task->cpus);
        const struct consumer *consumer = &builder->consumers[task->set];
        for (int k = 0; k < consumer->gpu_count; k++)
            task->gpus[task->gpu_count++] = consumer->gpus[(place + k) % consumer->gpu_count];
    }
    return HVD_OK;
}
