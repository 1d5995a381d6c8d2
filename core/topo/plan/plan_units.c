/* plan_units.c: what is granted of a machine, as cores or hardware threads to hand out. */
#include "topo/plan/plan_state.h"

#include <stdlib.h>

bool unit_in(const struct unit *unit, const struct bitset *cpus)
{
    for (int i = 0; i < unit->cpu_count; i++)
        if (bitset_has(cpus, unit->cpus[i]))
            return true;
    return false;
}

static int check_granted(const struct placing *placing, struct hvd_error *err)
{
    const struct machine *machine = placing->machine;
    char granted[128], there[128];
    bitset_text(&placing->plan->granted, granted, sizeof(granted));
    bitset_text(&machine->cpus, there, sizeof(there));
    if (bitset_empty(&placing->plan->granted))
        return error_set(err, HVD_ERR_INVALID, "no CPU is granted on this node");
    if (!bitset_inside(&placing->plan->granted, &machine->cpus))
        return error_set(err, HVD_ERR_INVALID,
                         "CPUs %s are granted, but the topology has %s; it is of another machine or out of "
                         "date: export it again",
                         granted, there);
    return HVD_OK;
}

static int check_smt(const struct placing *placing, struct hvd_error *err)
{
    int most = 0;
    for (int i = 0; i < placing->machine->core_count; i++)
        if (placing->machine->cores[i].cpu_count > most)
            most = placing->machine->cores[i].cpu_count;
    if (placing->request->bind.smt <= most)
        return HVD_OK;
    return error_set(
        err, HVD_ERR_INVALID,
        "--hvd-bind with smt:%d: cores of this machine have %d hardware thread%s; expected smt:%d or less",
        placing->request->bind.smt, most, most == 1 ? "" : "s", most);
}

/* The granted threads of a core, at most smt of them. */
static void fill_unit(const struct placing *placing, struct unit *unit, int core)
{
    int smt = placing->request->bind.smt > 0 ? placing->request->bind.smt : MACHINE_CORE_CPUS;
    const struct machine_core *from = &placing->machine->cores[core];
    *unit = (struct unit){.core = core, .owner = FREE};
    for (int i = 0; i < from->cpu_count && unit->cpu_count < smt; i++)
        if (bitset_has(&placing->plan->granted, from->cpus[i]))
            unit->cpus[unit->cpu_count++] = from->cpus[i];
}

/* Take the first of [units] in each domain for the system, [count] in all, from domains in proportion. */
static void reserve(struct placing *placing, struct span units, int count, int level)
{
    for (int i = 0; level == DOMAIN_KINDS && i < count; i++) {
        const struct machine_core *core = &placing->machine->cores[placing->units[units.items[i]].core];
        for (int k = 0; k < core->cpu_count; k++)
            bitset_add(&placing->plan->reserved, core->cpus[k]);
    }
    if (level == DOMAIN_KINDS || count == 0)
        return;
    share_apportion(placing, units, count, level, 1);
    for (int domain = 0; units.count > 0; domain++) {
        int run = span_run(placing, units, level);
        reserve(placing, (struct span){units.items, run}, placing->counts[level][domain], level + 1);
        units = (struct span){units.items + run, units.count - run};
    }
}

static void drop_reserved(struct placing *placing)
{
    int kept = 0;
    bitset_and(&placing->plan->reserved, &placing->plan->granted);
    for (int i = 0; i < placing->unit_count; i++)
        if (!unit_in(&placing->units[i], &placing->plan->reserved))
            placing->units[kept++] = placing->units[i];
    placing->unit_count = kept;
}

static int make_reserve(struct placing *placing, struct hvd_error *err)
{
    int count = placing->request->bind.reserve;
    if (count == 0)
        return HVD_OK;
    if (count >= placing->unit_count)
        return error_set(
            err, HVD_ERR_INVALID,
            "--hvd-bind with reserve:%d: %d core%s granted on this node; expected at most reserve:%d", count,
            placing->unit_count, placing->unit_count == 1 ? " is" : "s are", placing->unit_count - 1);
    struct span all = {calloc((size_t)placing->unit_count, sizeof(int)), placing->unit_count};
    if (all.items == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place tasks");
    for (int i = 0; i < all.count; i++)
        all.items[i] = i;
    reserve(placing, all, count, 0);
    free(all.items);
    drop_reserved(placing);
    return HVD_OK;
}

int units_make(struct placing *placing, struct hvd_error *err)
{
    const struct machine *machine = placing->machine;
    int rc = check_granted(placing, err);
    if (rc == HVD_OK)
        rc = check_smt(placing, err);
    if (rc != HVD_OK)
        return rc;
    placing->units = calloc((size_t)machine->core_count, sizeof(*placing->units));
    if (placing->units == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place tasks on %d cores", machine->core_count);
    for (int i = 0; i < machine->core_count; i++) {
        fill_unit(placing, &placing->units[placing->unit_count], i);
        placing->unit_count += placing->units[placing->unit_count].cpu_count > 0;
    }
    return make_reserve(placing, err);
}

int units_split(struct placing *placing, struct hvd_error *err)
{
    int count = 0, at = 0;
    for (int i = 0; i < placing->unit_count; i++)
        count += placing->units[i].cpu_count;
    struct unit *units = calloc((size_t)count, sizeof(*units));
    if (units == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place tasks on %d hardware threads", count);
    for (int i = 0; i < placing->unit_count; i++)
        for (int k = 0; k < placing->units[i].cpu_count; k++)
            units[at++] = (struct unit){.core = placing->units[i].core,
                                        .cpu_count = 1,
                                        .cpus = {placing->units[i].cpus[k]},
                                        .owner = placing->units[i].owner};
    free(placing->units);
    placing->units = units;
    placing->unit_count = count;
    placing->threads = true;
    return HVD_OK;
}
