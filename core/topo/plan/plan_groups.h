/* plan_groups.h: parties in groups, by the CPUs near their GPUs. Only for core/topo/plan*.c. */
#ifndef TOPO_PLAN_PLAN_GROUPS_H
#define TOPO_PLAN_PLAN_GROUPS_H

#include "topo/plan/plan_state.h"

/* How far from its GPUs a party may have cores. */
enum reach { REACH_NEAR, REACH_PACKAGE, REACH_ALL, REACH_COUNT };

/* Parties whose GPUs are near the same CPUs. */
struct group {
    struct bitset homes[REACH_COUNT];
    int sizes[REACH_COUNT]; /* free units in each */
    enum reach reach;       /* the one in force */
    struct span parties;    /* some of those of the division */
};

/* The parties that are to be placed, in groups, the smallest home first. */
struct division {
    int fair; /* units for each, were they all alike; 0: there are more parties than units */
    int group_count;
    struct group *groups;
    int *parties; /* where the groups' are */
    int *units;   /* room for a list of units */
};

/* [wanting] parties are not settled. */
int division_make(struct placing *placing, int wanting, struct division *division, struct hvd_error *err);
void division_free(struct division *division);

/* Sort the groups anew, after their reach was changed. */
void division_sort(struct division *division);

/* What each party of a group can have within its reach, beside those of groups whose reach is within it. */
int division_share(const struct division *division, const struct group *group);

/* Free units in [cpus]. */
int units_free(const struct placing *placing, const struct bitset *cpus);

#endif
