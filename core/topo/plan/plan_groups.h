/* plan_groups.h: consumers in groups, by the CPUs near their GPUs. Only for core/topo/plan*.c. */
#ifndef TOPO_PLAN_PLAN_GROUPS_H
#define TOPO_PLAN_PLAN_GROUPS_H

#include "topo/plan/plan_state.h"

/* How far from its GPUs a consumer may have cores. */
enum reach { REACH_NEAR, REACH_PACKAGE, REACH_ALL, REACH_COUNT };

/* Parties whose GPUs are near the same CPUs. */
struct consumer_group {
    struct bitmap localities[REACH_COUNT];
    int sizes[REACH_COUNT];      /* free units in each */
    enum reach reach;            /* the one in force */
    struct index_list consumers; /* some of those of the division */
};

/* The consumers that are to be placed, in groups, the smallest locality first. */
struct consumer_groups {
    int fair; /* units for each, were they all alike; 0: there are more consumers than units */
    int group_count;
    struct consumer_group *groups;
    int *consumers; /* where the groups' are */
    int *units;     /* room for a list of units */
};

/* [wanting] consumers are not preset. */
int consumer_groups_create(struct plan_builder *builder, int wanting, struct consumer_groups *groups,
                           struct hvd_error *err);
void consumer_groups_free(struct consumer_groups *groups);

/* Sort the groups anew, after their reach was changed. */
void consumer_groups_sort(struct consumer_groups *groups);

/* What each consumer of a group can have within its reach, beside those of groups whose reach is within it.
 */
int consumer_groups_share(const struct consumer_groups *groups, const struct consumer_group *group);

/* Free units in [cpus]. */
int units_count_free(const struct plan_builder *builder, const struct bitmap *cpus);

#endif
