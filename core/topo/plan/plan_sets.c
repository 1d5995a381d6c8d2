/* plan_sets.c: resource sets: how large they are, and which part of its set each task gets. */
#include "topo/plan/plan_state.h"

#include <string.h>

static int tasks_of(const struct rs_options *rs)
{
    return rs->tasks == RS_UNSET ? 1 : rs->tasks;
}

/* [asked] of [granted] for each of [count] sets; "all" is an even share. */
static int check_amount(int asked, int granted, const struct sets *sets, const char *what,
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

int sets_size(const struct placing *placing, struct sets *sets, struct hvd_error *err)
{
    const struct rs_options *rs = placing->request->rs;
    int tasks = tasks_of(rs);
    sets->count = (placing->request->task_count + tasks - 1) / tasks;
    int shares = rs->rs_per_host == RS_UNSET ? sets->count : rs->rs_per_host;
    if (sets->count > shares)
        return error_set(err, HVD_ERR_INVALID,
                         "--hvd-rs: %d tasks on this node are %d resource sets of %d, but rs_per_host is %d; "
                         "start fewer tasks a node",
                         placing->request->task_count, sets->count, tasks, shares);
    sets->cores = rs->cpus == RS_UNSET ? 1 : rs->cpus == RS_ALL ? placing->unit_count / shares : rs->cpus;
    sets->gpus = rs->gpus == RS_ALL ? placing->gpu_count / shares : rs->gpus;
    int rc = check_amount(sets->cores, placing->unit_count, sets, "core", err);
    if (rc == HVD_OK && rs->gpus != 0)
        rc = check_amount(sets->gpus, placing->gpu_count, sets, "GPU", err);
    if (rc == HVD_OK && rs->bind == RS_BIND_PACKED && (long long)rs->bind_cpus * tasks > sets->cores)
        rc = error_set(err, HVD_ERR_INVALID,
                       "--hvd-rs: bind:packed:%d of %d task%s needs resource sets of %lld cores, they have "
                       "%d; give cpus:%lld",
                       rs->bind_cpus, tasks, tasks == 1 ? "" : "s", (long long)rs->bind_cpus * tasks,
                       sets->cores, (long long)rs->bind_cpus * tasks);
    return rc;
}

void sets_give_gpus(struct placing *placing, const struct sets *sets)
{
    for (int i = 0; i < placing->party_count; i++)
        for (int k = 0; k < sets->gpus; k++)
            placing->parties[i].gpus[placing->parties[i].gpu_count++] = placing->gpus[i * sets->gpus + k];
}

/* Does a domain of [kind] hold all of [cpus]? */
static bool in_one(const struct placing *placing, const struct bitset *cpus, enum domain_kind kind)
{
    for (int i = 0; i < placing->machine->domain_count[kind]; i++)
        if (bitset_inside(cpus, &placing->machine->domains[kind][i].cpus))
            return true;
    return false;
}

static bool near_gpus(const struct placing *placing, const struct party *party)
{
    struct bitset near = {{0}};
    for (int i = 0; i < party->gpu_count; i++)
        bitset_or(&near, &placing->machine->gpus[party->gpus[i]].pci.cpus);
    return party->gpu_count == 0 || bitset_inside(&party->cpus, &near);
}

/* A latency priority in capital letters is a condition. */
static int check_latency(const struct placing *placing, int set, struct hvd_error *err)
{
    const struct rs_options *rs = placing->request->rs;
    const struct party *party = &placing->parties[set];
    for (int i = 0; rs->latency_strict && i < rs->latency_count; i++) {
        if (rs->latency[i] == RS_GPU_CPU && !near_gpus(placing, party))
            return error_set(err, HVD_ERR_INVALID,
                             "--hvd-rs: not all cores of resource set %d can be near its GPUs, as GPU-CPU "
                             "demands; ask for fewer cores, or "
                             "give gpu-cpu",
                             set);
        if (rs->latency[i] == RS_CPU_MEM && !in_one(placing, &party->cpus, DOMAIN_NUMA))
            return error_set(err, HVD_ERR_INVALID,
                             "--hvd-rs: the cores of resource set %d cannot be in one NUMA node, as CPU-MEM "
                             "demands; ask for fewer cores, or "
                             "give cpu-mem",
                             set);
        if (rs->latency[i] == RS_CPU_CPU && !in_one(placing, &party->cpus, DOMAIN_PACKAGE))
            return error_set(err, HVD_ERR_INVALID,
                             "--hvd-rs: the cores of resource set %d cannot be in one package, as CPU-CPU "
                             "demands; ask for fewer cores, or "
                             "give cpu-cpu",
                             set);
    }
    return HVD_OK;
}

/* Of the set's cores those of place [place]: all, or [rs->bind_cpus] of them. */
static void give_part(const struct placing *placing, int set, int place, struct bitset *cpus)
{
    const struct rs_options *rs = placing->request->rs;
    int nth = 0;
    *cpus = (struct bitset){{0}};
    for (int i = 0; i < placing->unit_count; i++) {
        const struct unit *unit = &placing->units[i];
        if (unit->owner != set)
            continue;
        bool its = rs->bind != RS_BIND_PACKED || nth / rs->bind_cpus == place;
        for (int k = 0; its && k < unit->cpu_count; k++)
            bitset_add(cpus, unit->cpus[k]);
        nth++;
    }
}

int sets_expand(struct placing *placing, const struct sets *sets, struct hvd_error *err)
{
    for (int set = 0; set < sets->count; set++) {
        int rc = check_latency(placing, set, err);
        if (rc != HVD_OK)
            return rc;
    }
    for (int i = 0; i < placing->request->task_count; i++) {
        struct plan_task *task = &placing->plan->tasks[i];
        int place = 0;
        rs_of_rank(placing->request->rs, sets->count, i, &task->set, &place);
        give_part(placing, task->set, place, &task->cpus);
        const struct party *party = &placing->parties[task->set];
        for (int k = 0; k < party->gpu_count; k++)
            task->gpus[task->gpu_count++] = party->gpus[(place + k) % party->gpu_count];
    }
    return HVD_OK;
}
