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

/* From the options that the step was given, those of the site, and the user's own variables in [environment].
 * No file that they name is opened. HVD_ERR_INVALID where a variable does not hold what it should, *wish says
 * then whether the step is placed. */
int placement_read_options(struct placement_options *wish, const struct site *site, char *const *environment,
                           struct hvd_error *err);

/* Before the tasks are forked: find out how they are to be placed and keep it for them, failures included. */
void placement_prepare(spank_t spank, const struct site *site);

/* Who a task is. */
struct task_id {
    const char *node;
    int64_t rank;
};

/* In a task, as the user: run as placed, and say so in variables, and in words where that is wanted. HVD_OK,
 * or an error with its sentence in [err], "" where another task of this node says it. */
int placement_apply(spank_t spank, const struct task_id *who, struct hvd_error *err);

/* What a task runs with, of its plan, its mask [now] and the CPUs that are [granted] to the step: a mask that
 * is narrower than these was set by Slurm or the user, and stays unless force is given. */
struct task_cpus {
    bool kept;          /* nothing is to be set */
    struct bitmap cpus; /* to run on */
    const char *why;    /* of what is kept */
};
struct task_cpus placement_choose_cpus(const struct placement_options *wish, const struct plan_task *task,
                                       const struct bitmap *now, const struct bitmap *granted);

/* Correct the GPUs of [task], the [index]th of those in [answer], by what it sees itself: [visible]. */
void placement_correct_gpus(struct plan_task *task, int index, const struct planner_reply *head,
                            const struct visible_gpus *visible);

#endif
