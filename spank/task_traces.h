/* task_traces.h: memory in which the tasks of this node leave traces that outlive them: the flight record and
 * the error file of each. */
#ifndef SPANK_TASK_TRACES_H
#define SPANK_TASK_TRACES_H

#include <slurm/spank.h>

/* Descriptors, which the tasks inherit: memory without a name, so nothing is left behind. -1: there is none.
 */
struct task_traces {
    int flight, error;
};

/* In slurmstepd, before it forks [count] tasks. Without memory or descriptors there are fewer traces. */
void task_traces_make(int count);

/* Those of the task [index] of this node. */
struct task_traces task_traces_of(int index);

/* In the task, which then has no others once its program starts: tell the program where to leave them. A file
 * for errors that the user has named stays. */
void task_traces_hand_down(spank_t spank, int index);

#endif
