/* plan_cores.c: assign cores to each consumer, by policy. */
#include "topo/plan/plan_groups.h"

#include <limits.h>

static int level_of(const struct plan_builder *builder, enum domain_kind kind)
{
    int level = 0;
    while (builder->levels[level] != kind)
        level++;
    return level;
}

/* ---- Near GPUs, or anywhere ---- */

static int distance(const struct plan_builder *builder, int unit, const struct bitmap *locality)
{
    const struct machine_core *core = &builder->machine->cores[builder->units[unit].core];
    if (unit_has_cpu(&builder->units[unit], locality))
        return 0;
    if (bitmap_intersects(&builder->machine->domains[DOMAIN_PACKAGE][core->domain[DOMAIN_PACKAGE]].cpus,
                          locality))
        return 1;
    return 2;
}

/* The NUMA domain nearest to [locality] that has free units, by its first unit; of equally near ones the one
 * with the most free units. -1: nothing is free. */
static int find_source(const struct plan_builder *builder, const struct bitmap *locality)
{
    int level = level_of(builder, DOMAIN_NUMA);
    int best = -1, best_far = 3, best_free = 0;
    for (int first = 0, last; first < builder->unit_count; first = last) {
        int free = 0, far = distance(builder, first, locality);
        for (last = first; last < builder->unit_count &&
                           unit_domain(builder, last, level) == unit_domain(builder, first, level);
             last++)
            free += builder->units[last].owner == UNIT_FREE;
        if (free == 0 || far > best_far || (far == best_far && free <= best_free))
            continue;
        best = first;
        best_far = far;
        best_free = free;
    }
    return best;
}

/* The consumer that lacks the most of its [base] units, and how many it lacks; -1: no consumer lacks any. */
static int find_most_lacking(const struct plan_builder *builder, int base, int *lacksp)
{
    int poorest = -1;
    *lacksp = 0;
    for (int consumer = 0; consumer < builder->consumer_count; consumer++) {
        int lacks = builder->consumers[consumer].preset ? 0 : base;
        for (int i = 0; i < builder->unit_count; i++)
            lacks -= builder->units[i].owner == consumer;
        if (lacks <= *lacksp)
            continue;
        poorest = consumer;
        *lacksp = lacks;
    }
    return poorest;
}

/* Fill consumers up to [base] units, each from the nearest domain with free units. */
static void fill_consumers(struct plan_builder *builder, int base)
{
    int level = level_of(builder, DOMAIN_NUMA);
    int lacks, consumer;
    for (consumer = find_most_lacking(builder, base, &lacks); consumer >= 0;
         consumer = find_most_lacking(builder, base, &lacks)) {
        int from = find_source(builder, &builder->consumers[consumer].locality);
        if (from < 0)
            return;
        int domain = unit_domain(builder, from, level);
        for (int i = from; i < builder->unit_count && lacks > 0 && unit_domain(builder, i, level) == domain;
             i++) {
            if (builder->units[i].owner != UNIT_FREE)
                continue;
            builder->units[i].owner = consumer;
            lacks--;
        }
    }
}

/* The number of units that every consumer can have within a reach. */
static int common_share(struct consumer_groups *groups, enum reach reach)
{
    int share = groups->fair;
    for (int i = 0; i < groups->group_count; i++)
        groups->groups[i].reach = reach;
    for (int i = 0; i < groups->group_count; i++) {
        int local = consumer_groups_share(groups, &groups->groups[i]);
        share = local < share ? local : share;
    }
    return share;
}

/* All consumers get the same number: what the one with the least near its GPUs can have. If that is less than
 * half of a fair share, they also get units from further away. */
static void assign_near(struct plan_builder *builder, struct consumer_groups *groups, int fixed)
{
    int base = common_share(groups, REACH_NEAR);
    if (base * 2 < groups->fair)
        base = common_share(groups, REACH_PACKAGE);
    if (base * 2 < groups->fair)
        base = groups->fair;
    if (fixed > 0)
        base = fixed;
    for (int i = 0; i < groups->group_count; i++) {
        const struct consumer_group *group = &groups->groups[i];
        struct index_list units = units_list_free(builder, &group->localities[REACH_NEAR], groups->units);
        int local = units.count / group->consumers.count;
        units_assign(builder, units, group->consumers, local < base ? local : base, 0);
    }
    fill_consumers(builder, base);
    if (fixed == 0)
        units_assign_rest(builder, level_of(builder, DOMAIN_NUMA));
}

/* ---- Confined to one domain ---- */

/* The level of the domains that the policy confines consumers to; -1: it does not. */
static int confining_level(const struct plan_builder *builder)
{
    switch (builder->request->bind.policy) {
    case BIND_NUMA:
        return level_of(builder, DOMAIN_NUMA);
    case BIND_SOCKET:
        return level_of(builder, DOMAIN_PACKAGE);
    case BIND_L3:
        return level_of(builder, DOMAIN_L3);
    case BIND_CORE:
        return DOMAIN_KINDS - 1;
    default:
        return -1;
    }
}

/* Widen the reach of groups whose locality offers less than half of a fair share: that is too little to be
 * confined to. */
static void widen_small_reach(struct consumer_groups *groups)
{
    for (int i = 0; i < groups->group_count; i++) {
        struct consumer_group *group = &groups->groups[i];
        while (group->reach < REACH_ALL && consumer_groups_share(groups, group) * 2 < groups->fair)
            group->reach++;
    }
    consumer_groups_sort(groups);
}

/* Assign each of [consumers] a domain of level [last] among [units]. */
static void assign_domains(struct plan_builder *builder, struct index_list units, struct index_list consumers,
                           int level, int last)
{
    if (level > last) {
        for (int i = 0; i < consumers.count; i++)
            builder->consumers[consumers.items[i]].first_unit = units.items[0];
        return;
    }
    units_apportion(builder, units, consumers.count, level, 0);
    for (int i = 0; units.count > 0; i++) {
        int run = same_domain_count(builder, units, level);
        int count = builder->counts[level][i];
        assign_domains(builder, (struct index_list){units.items, run},
                       (struct index_list){consumers.items, count}, level + 1, last);
        units = (struct index_list){units.items + run, units.count - run};
        consumers = (struct index_list){consumers.items + count, consumers.count - count};
    }
}

/* The consumers whose domain at [level] is that of [unit], into [to], in the order of the units near their
 * GPUs. */
static struct index_list consumers_in_domain(const struct plan_builder *builder, int unit, int level, int *to)
{
    struct index_list consumers = {to, 0};
    for (int i = 0; i < builder->consumer_count; i++) {
        int first = builder->consumers[i].first_unit;
        if (first < 0 || unit_domain(builder, first, level) != unit_domain(builder, unit, level))
            continue;
        int at = consumers.count++;
        for (; at > 0 && builder->consumers[to[at - 1]].nearest > builder->consumers[i].nearest; at--)
            to[at] = to[at - 1];
        to[at] = i;
    }
    return consumers;
}

/* Give each consumer one unit. There are more consumers than units, so consecutive consumers share one. */
static void share_units_in_turn(struct plan_builder *builder, struct index_list units,
                                struct index_list consumers)
{
    for (int i = 0; i < consumers.count; i++) {
        int unit = units.items[(long long)i * units.count / consumers.count];
        for (int k = 0; k < builder->units[unit].cpu_count; k++)
            bitmap_set(&builder->consumers[consumers.items[i]].cpus, builder->units[unit].cpus[k]);
    }
}

static void assign_confined(struct plan_builder *builder, struct consumer_groups *groups, int last)
{
    bool core = builder->request->bind.policy == BIND_CORE;
    struct index_list all = units_list_free(builder, &builder->machine->cpus, groups->units);
    int base = core ? 1 : INT_MAX;
    for (int pass = 0; pass < 2; pass++) {
        for (int at = 0; at < all.count;) {
            struct index_list units = {
                all.items + at,
                same_domain_count(builder, (struct index_list){all.items + at, all.count - at}, last)};
            struct index_list consumers =
                consumers_in_domain(builder, units.items[0], last, groups->consumers);
            at += units.count;
            if (consumers.count == 0)
                continue;
            if (pass == 0 && units.count / consumers.count < base)
                base = units.count / consumers.count;
            else if (pass == 1 && base == 0)
                share_units_in_turn(builder, units, consumers);
            else if (pass == 1)
                units_assign(builder, units, consumers, base, last + 1);
        }
    }
    if (!core && base > 0)
        units_assign_rest(builder, last);
}

/* ---- All consumers ---- */

static void mark_preset_units(struct plan_builder *builder)
{
    for (int i = 0; i < builder->consumer_count; i++)
        for (int k = 0; builder->consumers[i].preset && k < builder->unit_count; k++)
            if (unit_has_cpu(&builder->units[k], &builder->consumers[i].cpus))
                builder->units[k].owner = UNIT_PRESET;
}

static void assign_all_granted(struct plan_builder *builder)
{
    for (int i = 0; i < builder->consumer_count; i++)
        for (int k = 0; !builder->consumers[i].preset && k < builder->unit_count; k++)
            for (int n = 0; n < builder->units[k].cpu_count; n++)
                bitmap_set(&builder->consumers[i].cpus, builder->units[k].cpus[n]);
}

static void collect_cpus(struct plan_builder *builder)
{
    for (int i = 0; i < builder->unit_count; i++) {
        const struct unit *unit = &builder->units[i];
        for (int k = 0; unit->owner >= 0 && k < unit->cpu_count; k++)
            bitmap_set(&builder->consumers[unit->owner].cpus, unit->cpus[k]);
    }
}

static void divide(struct plan_builder *builder, struct consumer_groups *groups, int fixed)
{
    int level = confining_level(builder);
    if (level >= 0 && fixed == 0) {
        widen_small_reach(groups);
        for (int i = 0; i < groups->group_count; i++) {
            const struct consumer_group *group = &groups->groups[i];
            struct index_list units =
                units_list_free(builder, &group->localities[group->reach], groups->units);
            assign_domains(builder, units, group->consumers, 0, level);
        }
        assign_confined(builder, groups, level);
    } else if (groups->fair > 0) {
        assign_near(builder, groups, fixed);
    } else {
        for (int i = 0; i < groups->group_count; i++) {
            const struct consumer_group *group = &groups->groups[i];
            share_units_in_turn(builder,
                                units_list_free(builder, &group->localities[REACH_NEAR], groups->units),
                                group->consumers);
        }
    }
    if (!builder->threads)
        units_reorder(builder);
    collect_cpus(builder);
}

/* Reserve the units of consumers whose cores are preset, unless nothing else is left. */
static int reserve_preset_units(struct plan_builder *builder, int wanting, struct hvd_error *err)
{
    mark_preset_units(builder);
    if (units_count_free(builder, &builder->machine->cpus) == 0)
        for (int i = 0; i < builder->unit_count; i++)
            builder->units[i].owner = UNIT_FREE;
    return units_count_free(builder, &builder->machine->cpus) < wanting ? units_split(builder, err) : HVD_OK;
}

int cores_assign(struct plan_builder *builder, int fixed, struct hvd_error *err)
{
    struct consumer_groups groups;
    int wanting = 0;
    for (int i = 0; i < builder->consumer_count; i++)
        wanting += !builder->consumers[i].preset;
    if (builder->request->bind.policy == BIND_NONE)
        assign_all_granted(builder);
    if (builder->request->bind.policy == BIND_NONE || wanting == 0)
        return HVD_OK;
    int rc = reserve_preset_units(builder, wanting, err);
    if (rc == HVD_OK)
        rc = consumer_groups_create(builder, wanting, &groups, err);
    if (rc != HVD_OK)
        return rc;
    divide(builder, &groups, fixed);
    consumer_groups_free(&groups);
    return HVD_OK;
}
