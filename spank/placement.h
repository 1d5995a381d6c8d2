/* placement.h: place the tasks of a step on a node: decide before they are forked, and apply in each task. */
#ifndef SPANK_PLACEMENT_H
#define SPANK_PLACEMENT_H

#include <slurm/spank.h>

#include "spank/planner.h"
#include "spank/site.h"

/* What the options ask for. */
struct placement_options {
    bool placed;   /* the step uses hvd, or the user or the site says how tasks are placed */
    bool required; /* and the step fails if that cannot be done */
    struct bind_options bind;
    enum gpu_visible gpu_visible;
    struct rs_options rs;
    char nics[OPTION_VALUE_BYTES + 1];
};

/* For tests: read the options that the step was given, those of the site, and the user's own variables in
 * [environment]. Opens no file that they name. Returns HVD_ERR_INVALID if a variable holds a bad value;
 * *options then still says whether the step is placed. */
int placement_read_options(struct placement_options *options, const struct site *site,
                           char *const *environment, struct hvd_error *err);

/* Before slurmstepd forks the tasks: decide their placement and keep it for them. A failure is kept too. */
void placement_prepare(spank_t spank, const struct site *site);

/* The names of a task in sentences. */
struct task_id {
    const char *node;
    int64_t rank;
};

/* In a task, running as the user: bind it as planned, set its variables, and with --hvd-bind=verbose print
 * its placement. Returns HVD_OK, or an error with its sentence in [err]; the sentence is "" if another task
 * of this node prints it. */
int placement_apply(spank_t spank, const struct task_id *id, struct hvd_error *err);

/* In slurmstepd: write the GPU of the task [index] of this node, as the task has found it, into [text]:
 * "GPU 0000:17:00.0"; "" where it has none. */
void placement_gpu_text(int index, char *text, size_t text_bytes);

/* For tests: choose the CPUs of a task from its plan, its affinity mask [now] and the CPUs [granted] to the
 * step. If the mask is narrower than [granted], Slurm or the user has set it, and it stays unless force is
 * given. */
struct task_cpus {
    bool kept;          /* keep the mask as it is */
    struct bitmap cpus; /* the CPUs that it runs on */
    const char *why;    /* why the mask is kept */
};
struct task_cpus placement_choose_cpus(const struct placement_options *options, const struct plan_task *task,
                                       const struct bitmap *now, const struct bitmap *granted);

/* For tests: correct the GPUs of [task], the [index]th of the plan that came with [head], by the GPUs that
 * the task itself sees: [visible]. */
void placement_correct_gpus(struct plan_task *task, int index, const struct planner_reply *head,
                            const struct visible_gpus *visible);

#endif
