/* failure_reporter.h: report tasks that fail to srun, which names the first of them when the step has ended.
 */
#ifndef SPANK_FAILURE_REPORTER_H
#define SPANK_FAILURE_REPORTER_H

#include <slurm/spank.h>

#include "verdict/failure_report.h"

/* A task that has ended. */
struct task_end {
    int index;      /* among those of this node */
    int rank, size; /* of the whole step */
    int wait_status;
    const char *node;
};

/* In slurmstepd, before it forks the tasks of a step that uses hvd. */
void failure_reporter_begin(spank_t spank);

/* After that: ask srun for the address of node 0 of the step. True with what it says, which is to be checked;
 * false where it does not know. A child that is the user asks, and is waited for, at most seven seconds. */
bool failure_reporter_ask(char answer[FAILURE_ANSWER_BYTES]);

/* After slurmstepd has forked a task. */
void failure_reporter_task_begins(int index, pid_t pid);

/* In slurmstepd, after each task has ended. A failure is looked at and told by a child that is the user, and
 * that is waited for, at most three seconds: so srun has the report before it learns that the task has ended.
 * Where srun cannot be reached, one line on the terminal names the first task that a signal ended. */
void failure_reporter_task_ended(spank_t spank, const struct task_end *end);

#endif
