/* planner_child.h: the process that looks at a node for slurmstepd: forked from it, it becomes the user for
 * good, plans, and answers by a pipe. */
#ifndef SPANK_PLANNER_CHILD_H
#define SPANK_PLANNER_CHILD_H

#include <sys/types.h>

#include "topo/node_placement.h"

/* Whom it becomes. */
struct planner_user {
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* supplementary ones */
    int group_count;
};

/* What it is to find out. */
struct planner_request {
    struct node_placement place; /* its cpus are found by the child */
    const char *cores;           /* granted to the step, as Slurm numbers them, "0-3"; NULL: unknown */
    struct planner_user owner;
};

/* What it answers; the plan of each task follows. The parent believes nothing of it unchecked. */
struct planner_reply {
    int status; /* HVD_OK; otherwise only [sentence] counts */
    char sentence[sizeof(((struct hvd_error *)0)->text)];
    int task_count;
    char note[PLAN_NOTE_BYTES];
    struct bitmap cpus, mems; /* granted to the step on this node */
    int visible_count;        /* GPUs that the plan took for visible */
    int gpu_count;            /* GPUs of the node */
    struct machine_gpu gpus[MACHINE_MAX_GPUS];
};

/* What the child does once it is the user: answer on [fd]. The tests have others. */
typedef void planner_work_f(const struct planner_request *question, int fd);
planner_work_f planner_plan;

/* All of the child's life after the fork, in which all signals are blocked: become the user, let go of what
 * slurmstepd has open, do [work], end. Nothing here calls Slurm or ends by exit(), for other threads of
 * slurmstepd may have held locks when this one was forked. glibc lets a forked child allocate memory. */
_Noreturn void planner_main(const struct planner_request *question, planner_work_f *work, int fd);

/* The CPUs of [machine] that those [cores] stand for: Slurm counts cores in the order of the machine, and
 * each is granted with all its threads. False, [cpus] unchanged, where the text is no list or names a core
 * that is not there. */
bool planner_cpus_of_cores(const struct machine *machine, const char *cores, struct bitmap *cpus);

#endif
