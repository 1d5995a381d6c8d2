/* plan_cores.c: which cores each party gets, by policy. */
#include "topo/plan/plan_groups.h"

#include <limits.h>

static int level_of(const struct placing *placing, enum domain_kind kind)
{
    int level = 0;
    while (placing->levels[level] != kind)
        level++;
    return level;
}

/* ---- Near GPUs, or over all that is granted ---- */

static int distance(const struct placing *placing, int unit, const struct bitset *home)
{
    const struct machine_core *core = &placing->machine->cores[placing->units[unit].core];
    if (unit_in(&placing->units[unit], home))
        return 0;
    if (bitset_intersects(&placing->machine->domains[DOMAIN_PACKAGE][core->domain[DOMAIN_PACKAGE]].cpus,
                          home))
        return 1;
    return 2;
}

/* The NUMA domain (its first unit) with the most free units, of those nearest to [home]; -1: nothing is free.
 */
static int find_source(const struct placing *placing, const struct bitset *home)
{
    int level = level_of(placing, DOMAIN_NUMA);
    int best = -1, best_far = 3, best_free = 0;
    for (int first = 0, last; first < placing->unit_count; first = last) {
        int free = 0, far = distance(placing, first, home);
        for (last = first; last < placing->unit_count &&
                           unit_domain(placing, last, level) == unit_domain(placing, first, level);
             last++)
            free += placing->units[last].owner == FREE;
        if (free == 0 || far > best_far || (far == best_far && free <= best_free))
            continue;
        best = first;
        best_far = far;
        best_free = free;
    }
    return best;
}

/* The party that lacks most of [base] units, and how many; -1: none does. */
static int find_poorest(const struct placing *placing, int base, int *lacksp)
{
    int poorest = -1;
    *lacksp = 0;
    for (int party = 0; party < placing->party_count; party++) {
        int lacks = placing->parties[party].settled ? 0 : base;
        for (int i = 0; i < placing->unit_count; i++)
            lacks -= placing->units[i].owner == party;
        if (lacks <= *lacksp)
            continue;
        poorest = party;
        *lacksp = lacks;
    }
    return poorest;
}

/* Fill parties up to [base] from where it is nearest. */
static void fill_up(struct placing *placing, int base)
{
    int level = level_of(placing, DOMAIN_NUMA);
    int lacks, party;
    for (party = find_poorest(placing, base, &lacks); party >= 0;
         party = find_poorest(placing, base, &lacks)) {
        int from = find_source(placing, &placing->parties[party].home);
        if (from < 0)
            return;
        int domain = unit_domain(placing, from, level);
        for (int i = from; i < placing->unit_count && lacks > 0 && unit_domain(placing, i, level) == domain;
             i++) {
            if (placing->units[i].owner != FREE)
                continue;
            placing->units[i].owner = party;
            lacks--;
        }
    }
}

/* The units that each can have within a reach. */
static int common_share(struct division *division, enum reach reach)
{
    int share = division->fair;
    for (int i = 0; i < division->group_count; i++)
        division->groups[i].reach = reach;
    for (int i = 0; i < division->group_count; i++) {
        int local = division_share(division, &division->groups[i]);
        share = local < share ? local : share;
    }
    return share;
}

/* All get the same: what is near the poorest. Where that is less than half of a fair share, they also get
 * some from further off. */
static void give_near(struct placing *placing, struct division *division, int fixed)
{
    int base = common_share(division, REACH_NEAR);
    if (base * 2 < division->fair)
        base = common_share(division, REACH_PACKAGE);
    if (base * 2 < division->fair)
        base = division->fair;
    if (fixed > 0)
        base = fixed;
    for (int i = 0; i < division->group_count; i++) {
        const struct group *group = &division->groups[i];
        struct span units = share_free(placing, &group->homes[REACH_NEAR], division->units);
        int local = units.count / group->parties.count;
        share_out(placing, units, group->parties, local < base ? local : base, 0);
    }
    fill_up(placing, base);
    if (fixed == 0)
        share_rest(placing, level_of(placing, DOMAIN_NUMA));
}

/* ---- Confined to one domain each ---- */

/* The level of the domains that no party is to leave; -1: there is none. */
static int confining_level(const struct placing *placing)
{
    switch (placing->request->bind.policy) {
    case BIND_NUMA:
        return level_of(placing, DOMAIN_NUMA);
    case BIND_SOCKET:
        return level_of(placing, DOMAIN_PACKAGE);
    case BIND_L3:
        return level_of(placing, DOMAIN_L3);
    case BIND_CORE:
        return DOMAIN_KINDS - 1;
    default:
        return -1;
    }
}

/* A home with less than half of a fair share is no place to be confined to. */
static void widen_poor(struct division *division)
{
    for (int i = 0; i < division->group_count; i++) {
        struct group *group = &division->groups[i];
        while (group->reach < REACH_ALL && division_share(division, group) * 2 < division->fair)
            group->reach++;
    }
    division_sort(division);
}

/* Give each of [parties] a domain of level [last] among [units]. */
static void assign_domains(struct placing *placing, struct span units, struct span parties, int level,
                           int last)
{
    if (level > last) {
        for (int i = 0; i < parties.count; i++)
            placing->parties[parties.items[i]].first_unit = units.items[0];
        return;
    }
    share_apportion(placing, units, parties.count, level, 0);
    for (int i = 0; units.count > 0; i++) {
        int run = span_run(placing, units, level);
        int count = placing->counts[level][i];
        assign_domains(placing, (struct span){units.items, run}, (struct span){parties.items, count},
                       level + 1, last);
        units = (struct span){units.items + run, units.count - run};
        parties = (struct span){parties.items + count, parties.count - count};
    }
}

/* The parties whose domain at [level] is that of [unit], into [to], in the order of what is near their GPUs.
 */
static struct span parties_of(const struct placing *placing, int unit, int level, int *to)
{
    struct span parties = {to, 0};
    for (int i = 0; i < placing->party_count; i++) {
        int first = placing->parties[i].first_unit;
        if (first < 0 || unit_domain(placing, first, level) != unit_domain(placing, unit, level))
            continue;
        int at = parties.count++;
        for (; at > 0 && placing->parties[to[at - 1]].nearest > placing->parties[i].nearest; at--)
            to[at] = to[at - 1];
        to[at] = i;
    }
    return parties;
}

/* One unit each, those of a span in turn: there are more parties than units. */
static void share_units(struct placing *placing, struct span units, struct span parties)
{
    for (int i = 0; i < parties.count; i++) {
        int unit = units.items[(long long)i * units.count / parties.count];
        for (int k = 0; k < placing->units[unit].cpu_count; k++)
            bitset_add(&placing->parties[parties.items[i]].cpus, placing->units[unit].cpus[k]);
    }
}

static void give_confined(struct placing *placing, struct division *division, int last)
{
    bool core = placing->request->bind.policy == BIND_CORE;
    struct span all = share_free(placing, &placing->machine->cpus, division->units);
    int base = core ? 1 : INT_MAX;
    for (int pass = 0; pass < 2; pass++) {
        for (int at = 0; at < all.count;) {
            struct span units = {all.items + at,
                                 span_run(placing, (struct span){all.items + at, all.count - at}, last)};
            struct span parties = parties_of(placing, units.items[0], last, division->parties);
            at += units.count;
            if (parties.count == 0)
                continue;
            if (pass == 0 && units.count / parties.count < base)
                base = units.count / parties.count;
            else if (pass == 1 && base == 0)
                share_units(placing, units, parties);
            else if (pass == 1)
                share_out(placing, units, parties, base, last + 1);
        }
    }
    if (!core && base > 0)
        share_rest(placing, last);
}

/* ---- The whole ---- */

static void mark_settled(struct placing *placing)
{
    for (int i = 0; i < placing->party_count; i++)
        for (int k = 0; placing->parties[i].settled && k < placing->unit_count; k++)
            if (unit_in(&placing->units[k], &placing->parties[i].cpus))
                placing->units[k].owner = SETTLED;
}

static void give_all(struct placing *placing)
{
    for (int i = 0; i < placing->party_count; i++)
        for (int k = 0; !placing->parties[i].settled && k < placing->unit_count; k++)
            for (int n = 0; n < placing->units[k].cpu_count; n++)
                bitset_add(&placing->parties[i].cpus, placing->units[k].cpus[n]);
}

static void collect(struct placing *placing)
{
    for (int i = 0; i < placing->unit_count; i++) {
        const struct unit *unit = &placing->units[i];
        for (int k = 0; unit->owner >= 0 && k < unit->cpu_count; k++)
            bitset_add(&placing->parties[unit->owner].cpus, unit->cpus[k]);
    }
}

static void divide(struct placing *placing, struct division *division, int fixed)
{
    int level = confining_level(placing);
    if (level >= 0 && fixed == 0) {
        widen_poor(division);
        for (int i = 0; i < division->group_count; i++) {
            const struct group *group = &division->groups[i];
            struct span units = share_free(placing, &group->homes[group->reach], division->units);
            assign_domains(placing, units, group->parties, 0, level);
        }
        give_confined(placing, division, level);
    } else if (division->fair > 0) {
        give_near(placing, division, fixed);
    } else {
        for (int i = 0; i < division->group_count; i++) {
            const struct group *group = &division->groups[i];
            share_units(placing, share_free(placing, &group->homes[REACH_NEAR], division->units),
                        group->parties);
        }
    }
    if (!placing->threads)
        share_tidy(placing);
    collect(placing);
}

/* What others have settled is theirs, unless nothing else is left. */
static int prepare(struct placing *placing, int wanting, struct hvd_error *err)
{
    mark_settled(placing);
    if (units_free(placing, &placing->machine->cpus) == 0)
        for (int i = 0; i < placing->unit_count; i++)
            placing->units[i].owner = FREE;
    return units_free(placing, &placing->machine->cpus) < wanting ? units_split(placing, err) : HVD_OK;
}

int cores_give(struct placing *placing, int fixed, struct hvd_error *err)
{
    struct division division;
    int wanting = 0;
    for (int i = 0; i < placing->party_count; i++)
        wanting += !placing->parties[i].settled;
    if (placing->request->bind.policy == BIND_NONE)
        give_all(placing);
    if (placing->request->bind.policy == BIND_NONE || wanting == 0)
        return HVD_OK;
    int rc = prepare(placing, wanting, err);
    if (rc == HVD_OK)
        rc = division_make(placing, wanting, &division, err);
    if (rc != HVD_OK)
        return rc;
    divide(placing, &division, fixed);
    division_free(&division);
    return HVD_OK;
}
