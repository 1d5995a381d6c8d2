/* plan_groups.h: group consumers by the CPUs near their GPUs. Only for core/topo/plan/. */
#ifndef TOPO_PLAN_PLAN_GROUPS_H
#define TOPO_PLAN_PLAN_GROUPS_H

#include "topo/plan/plan_state.h"

/* How far from its GPUs a consumer may get cores. */
enum reach { REACH_NEAR, REACH_PACKAGE, REACH_ALL, REACH_COUNT };

/* Consumers whose GPUs are near the same CPUs. */
struct consumer_group {
    struct bitmap localities[REACH_COUNT];
    int sizes[REACH_COUNT];      /* free units in each */
    enum reach reach;            /* the reach in force */
    struct index_list consumers; /* a part of consumer_groups.consumers */
};

/* The consumers to place, in groups, the one with the smallest locality first. */
struct consumer_groups {
    int fair; /* units for each consumer if they were all alike; 0: there are more consumers than units */
    int group_count;
    struct consumer_group *groups;
    int *consumers; /* the storage of the groups' lists */
    int *units;     /* room for a list of units */
};

/* Make the groups. [wanting]: the number of consumers that are not preset. */
int consumer_groups_create(struct plan_builder *builder, int wanting, struct consumer_groups *groups,
                           struct hvd_error *err);
void consumer_groups_free(struct consumer_groups *groups);

/* Sort the groups again, after their reach has changed. */
void consumer_groups_sort(struct consumer_groups *groups);

/* The number of units that each consumer of a group can have within its reach, which it shares with groups
 * whose reach lies within it. */
int consumer_groups_share(const struct consumer_groups *groups, const struct consumer_group *group);

/* The number of free units in [cpus]. */
int units_count_free(const struct plan_builder *builder, const struct bitmap *cpus);

#endif
