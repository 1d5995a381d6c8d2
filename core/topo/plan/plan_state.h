/* plan_state.h: a plan under construction. Only for core/topo/plan/. */
#ifndef TOPO_PLAN_PLAN_STATE_H
#define TOPO_PLAN_PLAN_STATE_H

#include "topo/plan/plan.h"

#define UNIT_FREE   (-1)
#define UNIT_PRESET (-2)

/* What the stages assign: a core, or one of its hardware threads if there are more consumers than cores. */
struct unit {
    int core; /* index in machine->cores */
    int cpu_count;
    int cpus[MACHINE_CORE_CPUS]; /* the CPUs that may be used */
    int owner;                   /* a consumer, UNIT_FREE or UNIT_PRESET */
};

/* What gets units: a task, or a resource set with all its tasks. */
struct consumer {
    bool preset;            /* the request fixes its CPUs */
    struct bitmap locality; /* the CPUs near its GPUs; all CPUs if it has none */
    struct bitmap cpus;
    int gpu_count;
    int gpus[PLAN_TASK_GPUS]; /* indexes in machine->gpus */
    int nearest;              /* the first unit near its GPUs */
    int first_unit; /* the first unit of the domain that it is confined to; UNIT_FREE: it is not confined */
    bool extra;     /* has one unit more than the others */
};

struct plan_builder {
    const struct machine *machine;
    const struct plan_request *request;
    struct plan *plan;
    struct bitmap mems; /* granted; the granted CPUs are plan->granted */
    int unit_count;
    struct unit *units; /* neighbouring cores are next to each other */
    int consumer_count;
    struct consumer *consumers;
    bool threads; /* units are hardware threads */
    int gpu_count;
    int gpus[MACHINE_MAX_GPUS]; /* granted, in the order in which programs count them */
    /* The kinds of domains, from the outermost, of which there are fewest, to the innermost. */
    enum domain_kind levels[DOMAIN_KINDS];
    int *counts[DOMAIN_KINDS + 1]; /* for each level, a number for each domain (core) of that level */
};

/* A part of [builder]'s units or consumers, by ascending indexes. */
struct index_list {
    int *items;
    int count;
};

/* ---- plan_units.c: the granted cores, as units ---- */

/* Make units of the granted cores, less the reserved ones. */
int units_make(struct plan_builder *builder, struct hvd_error *err);

/* Split the units into hardware threads. */
int units_split(struct plan_builder *builder, struct hvd_error *err);

/* ---- plan_share.c: divide units ---- */

/* Is at least one CPU of the unit in [cpus]? */
bool unit_has_cpu(const struct unit *unit, const struct bitmap *cpus);

/* The domain of a unit at a level, or its core at level DOMAIN_KINDS. */
int unit_domain(const struct plan_builder *builder, int unit, int level);

/* The number of [units], from the first on, in the same domain as the first. */
int same_domain_count(const struct plan_builder *builder, struct index_list units, int level);

/* Give each of [consumers] [base] of [units], which are all free and enough, so that as few consumers as
 * possible are in more than one domain: first at [level], then at the finer levels. */
void units_assign(struct plan_builder *builder, struct index_list units, struct index_list consumers,
                  int base, int level);

/* Divide [count] of something among the domains of [units] at [level], in proportion to their units and
 * considering the consumers that are already confined there. counts[level][n] is the share of the nth domain
 * among [units]. No share exceeds the domain's units divided by [base]; 0: no such limit. */
void units_apportion(const struct plan_builder *builder, struct index_list units, int count, int level,
                     int base);

/* List the free units in [cpus] in [to], which has room for all. */
struct index_list units_list_free(const struct plan_builder *builder, const struct bitmap *cpus, int *to);

/* Let each consumer that has units take one more of those left in the same domain at [level] or a finer
 * one. */
void units_assign_rest(struct plan_builder *builder, int level);

/* Exchange units inside the innermost domains, where all are equally good, so that each consumer's are next
 * to each other. Only for whole cores. */
void units_reorder(struct plan_builder *builder);

/* ---- plan_cores.c: assign cores by policy ---- */

/* Assign [fixed] units to each consumer, or if that is 0, as many as each can have. */
int cores_assign(struct plan_builder *builder, int fixed, struct hvd_error *err);

/* ---- plan_gpus.c: assign GPUs ---- */
int gpus_collect_granted(struct plan_builder *builder, struct hvd_error *err);
void gpus_assign(struct plan_builder *builder);

/* ---- plan_sets.c: resource sets ---- */

/* The number of sets on this node, and of cores and GPUs in each. */
struct rs_layout {
    int count, cores, gpus;
};
int rs_layout_compute(const struct plan_builder *builder, struct rs_layout *sets, struct hvd_error *err);

/* Assign GPUs to each set, and once it has its cores, parts of the set to its tasks. */
void rs_assign_gpus(struct plan_builder *builder, const struct rs_layout *sets);
int rs_assign_tasks(struct plan_builder *builder, const struct rs_layout *sets, struct hvd_error *err);

/* ---- plan_nics.c: assign network cards ---- */
int nics_assign(struct plan_builder *builder, struct hvd_error *err);

/* ---- plan_reasons.c: write the reasons ---- */
void reasons_write(struct plan_builder *builder);

#endif
