/* plan_groups.c: parties in groups, by the CPUs near their GPUs. */
#include "topo/plan/plan_groups.h"

#include <stdlib.h>

int units_free(const struct placing *placing, const struct bitset *cpus)
{
    int count = 0;
    for (int i = 0; i < placing->unit_count; i++)
        count += placing->units[i].owner == FREE && unit_in(&placing->units[i], cpus);
    return count;
}

/* Add to [cpus] the whole of the domains of [kind] that it is in. */
static void widen(const struct placing *placing, struct bitset *cpus, enum domain_kind kind)
{
    struct bitset within = *cpus;
    for (int i = 0; i < placing->machine->domain_count[kind]; i++) {
        const struct bitset *domain = &placing->machine->domains[kind][i].cpus;
        if (bitset_intersects(domain, &within))
            bitset_or(cpus, domain);
    }
}

/* Where its cores are to be looked for: all there is for a party without GPUs. */
static void set_home(const struct placing *placing, struct party *party)
{
    party->home = (struct bitset){{0}};
    for (int i = 0; i < party->gpu_count; i++)
        bitset_or(&party->home, &placing->machine->gpus[party->gpus[i]].pci.cpus);
    party->nearest = 0;
    while (party->nearest < placing->unit_count && !unit_in(&placing->units[party->nearest], &party->home))
        party->nearest++;
    if (placing->request->bind.policy == BIND_NUMA)
        widen(placing, &party->home, DOMAIN_NUMA);
    if (placing->request->bind.policy == BIND_SOCKET)
        widen(placing, &party->home, DOMAIN_PACKAGE);
    if (party->gpu_count == 0 || units_free(placing, &party->home) == 0)
        party->home = placing->machine->cpus;
}

static bool is_first_of_home(const struct placing *placing, int party)
{
    for (int i = 0; i < party; i++)
        if (!placing->parties[i].settled &&
            bitset_equal(&placing->parties[i].home, &placing->parties[party].home))
            return false;
    return !placing->parties[party].settled;
}

static void set_homes(const struct placing *placing, struct group *group, const struct bitset *home)
{
    group->homes[REACH_NEAR] = group->homes[REACH_PACKAGE] = *home;
    widen(placing, &group->homes[REACH_PACKAGE], DOMAIN_PACKAGE);
    group->homes[REACH_ALL] = placing->machine->cpus;
    for (int i = 0; i < REACH_COUNT; i++)
        group->sizes[i] = units_free(placing, &group->homes[i]);
}

static void make_groups(struct placing *placing, struct division *division)
{
    int used = 0;
    for (int i = 0; i < placing->party_count; i++) {
        if (!is_first_of_home(placing, i))
            continue;
        struct group *group = &division->groups[division->group_count++];
        set_homes(placing, group, &placing->parties[i].home);
        group->parties = (struct span){division->parties + used, 0};
        for (int k = i; k < placing->party_count; k++)
            if (!placing->parties[k].settled &&
                bitset_equal(&placing->parties[k].home, &placing->parties[i].home))
                group->parties.items[group->parties.count++] = k;
        used += group->parties.count;
    }
}

int division_make(struct placing *placing, int wanting, struct division *division, struct hvd_error *err)
{
    *division = (struct division){.fair = units_free(placing, &placing->machine->cpus) / wanting};
    division->groups = calloc((size_t)wanting, sizeof(*division->groups));
    division->parties = calloc((size_t)placing->party_count, sizeof(*division->parties));
    division->units = calloc((size_t)placing->unit_count, sizeof(*division->units));
    if (division->groups == NULL || division->parties == NULL || division->units == NULL) {
        division_free(division);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", placing->request->task_count);
    }
    for (int i = 0; i < placing->party_count; i++)
        set_home(placing, &placing->parties[i]);
    make_groups(placing, division);
    division_sort(division);
    return HVD_OK;
}

void division_free(struct division *division)
{
    free(division->groups);
    free(division->parties);
    free(division->units);
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *left = a, *right = b;
    int order = left->sizes[left->reach] - right->sizes[right->reach];
    return order != 0 ? order : left->parties.items[0] - right->parties.items[0];
}

void division_sort(struct division *division)
{
    qsort(division->groups, (size_t)division->group_count, sizeof(*division->groups), compare_groups);
}

int division_share(const struct division *division, const struct group *group)
{
    int parties = group->parties.count;
    for (int i = 0; i < division->group_count; i++) {
        const struct group *other = &division->groups[i];
        if (other != group && bitset_inside(&other->homes[other->reach], &group->homes[group->reach]))
            parties += other->parties.count;
    }
    return group->sizes[group->reach] / parties;
}
