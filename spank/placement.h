/* placement.h: place the tasks of a step on a node: decided before they are forked, applied in each. */
#ifndef SPANK_PLACEMENT_H
#define SPANK_PLACEMENT_H

#include <slurm/spank.h>

#include "spank/planner.h"
#include "site.h"

/* What the options ask for. */
struct placement_options {
    bool placed; /* the step uses hvd, or somebody says how tasks are placed */
    bool asked;  /* and where it cannot be done the step fails */
    struct bind_options bind;
    enum gpu_visible gpu_visible;
    struct rs_options rs;
    char nics[OPTION_VALUE_BYTES + 1];
};

/* Read the options that the step was given, those of the site, and the user's own variables in [environment].
 * Opens no file that they name. Returns HVD_ERR_INVALID where a variable holds a bad value; *options then
 * says whether the step is placed. */
int placement_read_options(struct placement_options *options, const struct site *site,
                           char *const *environment, struct hvd_error *err);

/* Before slurmstepd forks the tasks: decide their placement and keep it for them. A failure is kept as well.
 */
void placement_prepare(spank_t spank, const struct site *site);

/* A task, for sentences. */
struct task_id {
    const char *node;
    int64_t rank;
};

/* In a task, running as the user: bind it as placed, set its variables, and with --hvd-bind=verbose print its
 * placement. Returns HVD_OK, or an error with its sentence in [err]; the sentence is "" where another task of
 * this node prints it. */
int placement_apply(spank_t spank, const struct task_id *id, struct hvd_error *err);

/* Choose the CPUs of a task from its plan, its mask [now] and the CPUs [granted] to the step. A mask narrower
 * than [granted] was set by Slurm or the user; it stays unless force is given. */
struct task_cpus {
    bool kept;          /* nothing is to be set */
    struct bitmap cpus; /* to run on */
    const char *why;    /* of what is kept */
};
struct task_cpus placement_choose_cpus(const struct placement_options *options, const struct plan_task *task,
                                       const struct bitmap *now, const struct bitmap *granted);

/* Correct the GPUs of [task], the [index]th of the plan that came with [head], by the GPUs that the task
 * itself sees: [visible]. */
void placement_correct_gpus(struct plan_task *task, int index, const struct planner_reply *head,
                            const struct visible_gpus *visible);

#endif
