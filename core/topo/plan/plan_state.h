/* plan_state.h: a plan in the making. Only for core/topo/plan*.c. */
#ifndef TOPO_PLAN_PLAN_STATE_H
#define TOPO_PLAN_PLAN_STATE_H

#include "topo/plan/plan.h"

#define UNIT_FREE   (-1)
#define UNIT_PRESET (-2)

/* What is handed out: a core, or where there are more consumers than cores, one of its hardware threads. */
struct unit {
    int core; /* of the machine */
    int cpu_count;
    int cpus[MACHINE_CORE_CPUS]; /* that may be used */
    int owner;                   /* a consumer, UNIT_FREE or UNIT_PRESET */
};

/* Who gets units: a task, or a resource set with all its tasks. */
struct consumer {
    bool preset;            /* its cpus were given */
    struct bitmap locality; /* the CPUs near its GPUs; all that are granted where it has none */
    struct bitmap cpus;
    int gpu_count;
    int gpus[PLAN_TASK_GPUS]; /* of the machine */
    int nearest;              /* the first unit near its GPUs */
    int first_unit;           /* where the domain begins to which it is confined; UNIT_FREE: it is not */
    bool extra;               /* has one unit more than the others */
};

struct plan_builder {
    const struct machine *machine;
    const struct plan_request *request;
    struct plan *plan;
    struct bitmap mems; /* granted; cpus are plan->granted */
    int unit_count;
    struct unit *units; /* neighbours next to each other */
    int consumer_count;
    struct consumer *consumers;
    bool threads; /* units are hardware threads */
    int gpu_count;
    int gpus[MACHINE_MAX_GPUS]; /* granted, in the order in which programs count them */
    /* Kinds of domains, those with fewer domains, which are around the others, first. */
    enum domain_kind levels[DOMAIN_KINDS];
    int *counts[DOMAIN_KINDS + 1]; /* room for a number for each domain (core) of a level */
};

/* A part of [builder]'s units or consumers, by their indexes, ascending. */
struct index_list {
    int *items;
    int count;
};

/* ---- plan_units.c: what is granted, as units ---- */

/* Take in what is granted, less what is reserved. */
int units_make(struct plan_builder *builder, struct hvd_error *err);

/* Make units of hardware threads. */
int units_split(struct plan_builder *builder, struct hvd_error *err);

/* The CPUs of a unit are in [cpus], at least one of them. */
bool unit_has_cpu(const struct unit *unit, const struct bitmap *cpus);

/* ---- plan_share.c: how units are divided ---- */

/* The domain of a unit at a level; at level DOMAIN_KINDS its core. */
int unit_domain(const struct plan_builder *builder, int unit, int level);

/* How many of the [units], at the beginning, are in the same domain as the first. */
int same_domain_count(const struct plan_builder *builder, struct index_list units, int level);

/* Give each of [consumers] [base] of [units], all free and enough, so that as few as possible are in more
 * than one domain: first of level [level], then of the finer ones. */
void units_assign(struct plan_builder *builder, struct index_list units, struct index_list consumers,
                  int base, int level);

/* Divide [count] of something among the domains of [units] at [level], in proportion to their units and to
 * the consumers that have their place there already, into counts[level]: of the nth domain that [units] come
 * to. None gets more than its units divided by [base]; 0: there is no such limit. */
void units_apportion(const struct plan_builder *builder, struct index_list units, int count, int level,
                     int base);

/* The units that are free and in [cpus], into [to], which has room for all. */
struct index_list units_list_free(const struct plan_builder *builder, const struct bitmap *cpus, int *to);

/* Let consumers that have units take one more of those that are left near them: in the same domain at [level]
 * or finer. */
void units_assign_rest(struct plan_builder *builder, int level);

/* Let consumers have units next to each other: those of the innermost domains are all as good. Only of whole
 * cores. */
void units_reorder(struct plan_builder *builder);

/* ---- plan_cores.c: which cores each consumer gets, by policy ---- */

/* [fixed] for each, or 0: what each can have. */
int cores_assign(struct plan_builder *builder, int fixed, struct hvd_error *err);

/* ---- plan_gpus.c: which GPUs ---- */
int gpus_collect_granted(struct plan_builder *builder, struct hvd_error *err);
void gpus_assign(struct plan_builder *builder);

/* ---- plan_sets.c: resource sets ---- */

/* How many sets this node has, and how many cores and GPUs each. */
struct rs_layout {
    int count, cores, gpus;
};
int rs_layout_compute(const struct plan_builder *builder, struct rs_layout *sets, struct hvd_error *err);

/* Give each set its GPUs; its tasks their part of the set, once that has its cores. */
void rs_assign_gpus(struct plan_builder *builder, const struct rs_layout *sets);
int rs_assign_tasks(struct plan_builder *builder, const struct rs_layout *sets, struct hvd_error *err);

/* ---- plan_nics.c: which network cards ---- */
int nics_assign(struct plan_builder *builder, struct hvd_error *err);

/* ---- plan_task.c ---- */

/* Append to a text of [text_bytes]; what does not fit is cut. */
void plan_append(char *text, size_t text_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- plan_words.c: why ---- */
void reasons_write(struct plan_builder *builder);

#endif
