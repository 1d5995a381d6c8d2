/* plan_units.c: make units of the granted part of a machine: cores or hardware threads. */
#include "topo/plan/plan_state.h"

#include <stdlib.h>

static int check_granted(const struct plan_builder *builder, struct hvd_error *err)
{
    const struct machine *machine = builder->machine;
    char granted[128], there[128];
    bitmap_text(&builder->plan->granted, granted, sizeof(granted));
    bitmap_text(&machine->cpus, there, sizeof(there));
    if (bitmap_is_empty(&builder->plan->granted))
        return error_set(err, HVD_ERR_INVALID, "no CPU is granted on this node");
    if (!bitmap_is_included(&builder->plan->granted, &machine->cpus))
        return error_set(err, HVD_ERR_INVALID,
                         "CPUs %s are granted, but the topology has %s; it is of another machine or out of "
                         "date: export it again",
                         granted, there);
    return HVD_OK;
}

static int check_smt(const struct plan_builder *builder, struct hvd_error *err)
{
    int most = 0;
    for (int i = 0; i < builder->machine->core_count; i++)
        if (builder->machine->cores[i].cpu_count > most)
            most = builder->machine->cores[i].cpu_count;
    if (builder->request->bind.smt <= most)
        return HVD_OK;
    return error_set(
        err, HVD_ERR_INVALID,
        "--hvd-bind with smt:%d: cores of this machine have %d hardware thread%s; expected smt:%d or less",
        builder->request->bind.smt, most, most == 1 ? "" : "s", most);
}

/* Fill a unit with the granted threads of a core, at most smt of them. */
static void fill_unit(const struct plan_builder *builder, struct unit *unit, int core)
{
    int smt = builder->request->bind.smt > 0 ? builder->request->bind.smt : MACHINE_CORE_CPUS;
    const struct machine_core *from = &builder->machine->cores[core];
    *unit = (struct unit){.core = core, .owner = UNIT_FREE};
    for (int i = 0; i < from->cpu_count && unit->cpu_count < smt; i++)
        if (bitmap_is_set(&builder->plan->granted, from->cpus[i]))
            unit->cpus[unit->cpu_count++] = from->cpus[i];
}

/* Reserve [count] units for the system: from each domain a share in proportion to its size, and there the
 * first ones. */
static void reserve_units(struct plan_builder *builder, struct index_list units, int count, int level)
{
    for (int i = 0; level == DOMAIN_KINDS && i < count; i++) {
        const struct machine_core *core = &builder->machine->cores[builder->units[units.items[i]].core];
        for (int k = 0; k < core->cpu_count; k++)
            bitmap_set(&builder->plan->reserved, core->cpus[k]);
    }
    if (level == DOMAIN_KINDS || count == 0)
        return;
    units_apportion(builder, units, count, level, 1);
    for (int domain = 0; units.count > 0; domain++) {
        int run = same_domain_count(builder, units, level);
        reserve_units(builder, (struct index_list){units.items, run}, builder->counts[level][domain],
                      level + 1);
        units = (struct index_list){units.items + run, units.count - run};
    }
}

static void drop_reserved(struct plan_builder *builder)
{
    int kept = 0;
    bitmap_and(&builder->plan->reserved, &builder->plan->granted);
    for (int i = 0; i < builder->unit_count; i++)
        if (!unit_has_cpu(&builder->units[i], &builder->plan->reserved))
            builder->units[kept++] = builder->units[i];
    builder->unit_count = kept;
}

static int make_reserve(struct plan_builder *builder, struct hvd_error *err)
{
    int count = builder->request->bind.reserve;
    if (count == 0)
        return HVD_OK;
    if (count >= builder->unit_count)
        return error_set(
            err, HVD_ERR_INVALID,
            "--hvd-bind with reserve:%d: %d core%s granted on this node; expected at most reserve:%d", count,
            builder->unit_count, builder->unit_count == 1 ? " is" : "s are", builder->unit_count - 1);
    struct index_list all = {calloc((size_t)builder->unit_count, sizeof(int)), builder->unit_count};
    if (all.items == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place tasks");
    for (int i = 0; i < all.count; i++)
        all.items[i] = i;
    reserve_units(builder, all, count, 0);
    free(all.items);
    drop_reserved(builder);
    return HVD_OK;
}

int units_make(struct plan_builder *builder, struct hvd_error *err)
{
    const struct machine *machine = builder->machine;
    int rc = check_granted(builder, err);
    if (rc == HVD_OK)
        rc = check_smt(builder, err);
    if (rc != HVD_OK)
        return rc;
    builder->units = calloc((size_t)machine->core_count, sizeof(*builder->units));
    if (builder->units == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place tasks on %d cores", machine->core_count);
    for (int i = 0; i < machine->core_count; i++) {
        fill_unit(builder, &builder->units[builder->unit_count], i);
        builder->unit_count += builder->units[builder->unit_count].cpu_count > 0;
    }
    return make_reserve(builder, err);
}

int units_split(struct plan_builder *builder, struct hvd_error *err)
{
    int count = 0, at = 0;
    for (int i = 0; i < builder->unit_count; i++)
        count += builder->units[i].cpu_count;
    struct unit *units = calloc((size_t)count, sizeof(*units));
    if (units == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place tasks on %d hardware threads", count);
    for (int i = 0; i < builder->unit_count; i++)
        for (int k = 0; k < builder->units[i].cpu_count; k++)
            units[at++] = (struct unit){.core = builder->units[i].core,
                                        .cpu_count = 1,
                                        .cpus = {builder->units[i].cpus[k]},
                                        .owner = builder->units[i].owner};
    free(builder->units);
    builder->units = units;
    builder->unit_count = count;
    builder->threads = true;
    return HVD_OK;
}
