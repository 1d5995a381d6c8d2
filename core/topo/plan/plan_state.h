/* plan_state.h: a plan in the making. Only for core/topo/plan*.c. */
#ifndef TOPO_PLAN_PLAN_STATE_H
#define TOPO_PLAN_PLAN_STATE_H

#include "topo/plan/plan.h"

#define FREE    (-1)
#define SETTLED (-2)

/* What is handed out: a core, or where there are more parties than cores, one of its hardware threads. */
struct unit {
    int core; /* of the machine */
    int cpu_count;
    int cpus[MACHINE_CORE_CPUS]; /* that may be used */
    int owner;                   /* a party, FREE or SETTLED */
};

/* Who gets units: a task, or a resource set with all its tasks. */
struct party {
    bool settled;       /* its cpus were given */
    struct bitset home; /* the CPUs near its GPUs; all that are granted where it has none */
    struct bitset cpus;
    int gpu_count;
    int gpus[PLAN_TASK_GPUS]; /* of the machine */
    int nearest;              /* the first unit near its GPUs */
    int first_unit;           /* where the domain begins to which it is confined; FREE: it is not */
    bool extra;               /* has one unit more than the others */
};

struct placing {
    const struct machine *machine;
    const struct request *request;
    struct plan *plan;
    struct bitset mems; /* granted; cpus are plan->granted */
    int unit_count;
    struct unit *units; /* neighbours next to each other */
    int party_count;
    struct party *parties;
    bool threads; /* units are hardware threads */
    int gpu_count;
    int gpus[MACHINE_MAX_GPUS]; /* granted, in the order in which programs count them */
    /* Kinds of domains, those with fewer domains, which are around the others, first. */
    enum domain_kind levels[DOMAIN_KINDS];
    int *counts[DOMAIN_KINDS + 1]; /* room for a number for each domain (core) of a level */
};

/* A part of [placing]'s units or parties, by their indexes, ascending. */
struct span {
    int *items;
    int count;
};

/* ---- plan_units.c: what is granted, as units ---- */

/* Take in what is granted, less what is reserved. */
int units_make(struct placing *placing, struct hvd_error *err);

/* Make units of hardware threads. */
int units_split(struct placing *placing, struct hvd_error *err);

/* The CPUs of a unit are in [cpus], at least one of them. */
bool unit_in(const struct unit *unit, const struct bitset *cpus);

/* ---- plan_share.c: how units are divided ---- */

/* The domain of a unit at a level; at level DOMAIN_KINDS its core. */
int unit_domain(const struct placing *placing, int unit, int level);

/* How many of the [units], at the beginning, are in the same domain as the first. */
int span_run(const struct placing *placing, struct span units, int level);

/* Give each of [parties] [base] of [units], all free and enough, so that as few as possible are in more than
 * one domain: first of level [level], then of the finer ones. */
void share_out(struct placing *placing, struct span units, struct span parties, int base, int level);

/* Divide [count] of something among the domains of [units] at [level], in proportion to their units and to
 * the parties that have their place there already, into counts[level]: of the nth domain that [units] come
 * to. None gets more than its units divided by [base]; 0: there is no such limit. */
void share_apportion(const struct placing *placing, struct span units, int count, int level, int base);

/* The units that are free and in [cpus], into [to], which has room for all. */
struct span share_free(const struct placing *placing, const struct bitset *cpus, int *to);

/* Let parties that have units take one more of those that are left near them: in the same domain at [level]
 * or finer. */
void share_rest(struct placing *placing, int level);

/* Let parties have units next to each other: those of the innermost domains are all as good. Only of whole
 * cores. */
void share_tidy(struct placing *placing);

/* ---- plan_cores.c: which cores each party gets, by policy ---- */

/* [fixed] for each, or 0: what each can have. */
int cores_give(struct placing *placing, int fixed, struct hvd_error *err);

/* ---- plan_gpus.c: which GPUs ---- */
int gpus_grant(struct placing *placing, struct hvd_error *err);
void gpus_give(struct placing *placing);

/* ---- plan_sets.c: resource sets ---- */

/* How many sets this node has, and how many cores and GPUs each. */
struct sets {
    int count, cores, gpus;
};
int sets_size(const struct placing *placing, struct sets *sets, struct hvd_error *err);

/* Give each set its GPUs; its tasks their part of the set, once that has its cores. */
void sets_give_gpus(struct placing *placing, const struct sets *sets);
int sets_expand(struct placing *placing, const struct sets *sets, struct hvd_error *err);

/* ---- plan_nics.c: which network cards ---- */
int nics_give(struct placing *placing, struct hvd_error *err);

/* ---- plan_task.c ---- */

/* Append to a text of [text_bytes]; what does not fit is cut. */
void plan_append(char *text, size_t text_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- plan_words.c: why ---- */
void words_write(struct placing *placing);

#endif
