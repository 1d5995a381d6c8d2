/* plan_groups.c: group consumers by the CPUs near their GPUs. */
#include "topo/plan/plan_groups.h"

#include <stdlib.h>

int units_count_free(const struct plan_builder *builder, const struct bitmap *cpus)
{
    int count = 0;
    for (int i = 0; i < builder->unit_count; i++)
        count += builder->units[i].owner == UNIT_FREE && unit_has_cpu(&builder->units[i], cpus);
    return count;
}

/* Extend [cpus] to the whole of each domain of [kind] that it intersects. */
static void widen(const struct plan_builder *builder, struct bitmap *cpus, enum domain_kind kind)
{
    struct bitmap within = *cpus;
    for (int i = 0; i < builder->machine->domain_count[kind]; i++) {
        const struct bitmap *domain = &builder->machine->domains[kind][i].cpus;
        if (bitmap_intersects(domain, &within))
            bitmap_or(cpus, domain);
    }
}

/* Set where to look for the consumer's cores: anywhere for a consumer without GPUs. */
static void set_locality(const struct plan_builder *builder, struct consumer *consumer)
{
    consumer->locality = (struct bitmap){{0}};
    for (int i = 0; i < consumer->gpu_count; i++)
        bitmap_or(&consumer->locality, &builder->machine->gpus[consumer->gpus[i]].pci.cpus);
    consumer->nearest = 0;
    while (consumer->nearest < builder->unit_count &&
           !unit_has_cpu(&builder->units[consumer->nearest], &consumer->locality))
        consumer->nearest++;
    if (builder->request->bind.policy == BIND_NUMA)
        widen(builder, &consumer->locality, DOMAIN_NUMA);
    if (builder->request->bind.policy == BIND_SOCKET)
        widen(builder, &consumer->locality, DOMAIN_PACKAGE);
    if (consumer->gpu_count == 0 || units_count_free(builder, &consumer->locality) == 0)
        consumer->locality = builder->machine->cpus;
}

static bool is_first_of_locality(const struct plan_builder *builder, int consumer)
{
    for (int i = 0; i < consumer; i++)
        if (!builder->consumers[i].preset &&
            bitmap_is_equal(&builder->consumers[i].locality, &builder->consumers[consumer].locality))
            return false;
    return !builder->consumers[consumer].preset;
}

static void set_localities(const struct plan_builder *builder, struct consumer_group *group,
                           const struct bitmap *locality)
{
    group->localities[REACH_NEAR] = group->localities[REACH_PACKAGE] = *locality;
    widen(builder, &group->localities[REACH_PACKAGE], DOMAIN_PACKAGE);
    group->localities[REACH_ALL] = builder->machine->cpus;
    for (int i = 0; i < REACH_COUNT; i++)
        group->sizes[i] = units_count_free(builder, &group->localities[i]);
}

static void make_groups(struct plan_builder *builder, struct consumer_groups *groups)
{
    int used = 0;
    for (int i = 0; i < builder->consumer_count; i++) {
        if (!is_first_of_locality(builder, i))
            continue;
        struct consumer_group *group = &groups->groups[groups->group_count++];
        set_localities(builder, group, &builder->consumers[i].locality);
        group->consumers = (struct index_list){groups->consumers + used, 0};
        for (int k = i; k < builder->consumer_count; k++)
            if (!builder->consumers[k].preset &&
                bitmap_is_equal(&builder->consumers[k].locality, &builder->consumers[i].locality))
                group->consumers.items[group->consumers.count++] = k;
        used += group->consumers.count;
    }
}

int consumer_groups_create(struct plan_builder *builder, int wanting, struct consumer_groups *groups,
                           struct hvd_error *err)
{
    *groups = (struct consumer_groups){.fair = units_count_free(builder, &builder->machine->cpus) / wanting};
    groups->groups = calloc((size_t)wanting, sizeof(*groups->groups));
    groups->consumers = calloc((size_t)builder->consumer_count, sizeof(*groups->consumers));
    groups->units = calloc((size_t)builder->unit_count, sizeof(*groups->units));
    if (groups->groups == NULL || groups->consumers == NULL || groups->units == NULL) {
        consumer_groups_free(groups);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", builder->request->task_count);
    }
    for (int i = 0; i < builder->consumer_count; i++)
        set_locality(builder, &builder->consumers[i]);
    make_groups(builder, groups);
    consumer_groups_sort(groups);
    return HVD_OK;
}

void consumer_groups_free(struct consumer_groups *groups)
{
    free(groups->groups);
    free(groups->consumers);
    free(groups->units);
}

static int compare_groups(const void *a, const void *b)
{
    const struct consumer_group *left = a, *right = b;
    int order = left->sizes[left->reach] - right->sizes[right->reach];
    return order != 0 ? order : left->consumers.items[0] - right->consumers.items[0];
}

void consumer_groups_sort(struct consumer_groups *groups)
{
    qsort(groups->groups, (size_t)groups->group_count, sizeof(*groups->groups), compare_groups);
}

int consumer_groups_share(const struct consumer_groups *groups, const struct consumer_group *group)
{
    int consumers = group->consumers.count;
    for (int i = 0; i < groups->group_count; i++) {
        const struct consumer_group *other = &groups->groups[i];
        if (other != group &&
            bitmap_is_included(&other->localities[other->reach], &group->localities[group->reach]))
            consumers += other->consumers.count;
    }
    return group->sizes[group->reach] / consumers;
}
