/* stepd.h: what the plug-in does in slurmstepd, on the nodes of a step. */
#ifndef SPANK_STEPD_H
#define SPANK_STEPD_H

#include <slurm/spank.h>

#include "spank/site.h"

/* Before slurmstepd forks the tasks: decide their placement. */
void stepd_user_init(spank_t spank, const struct site *site);

/* In the task, as the user, just before the program starts: put the options of its step and site into its
 * environment, and place it. Returns 0, or -1 after printing one sentence on the user's terminal. */
int stepd_task_init(spank_t spank, const struct site *site);

/* After a task has been forked. */
void stepd_task_post_fork(spank_t spank);

/* After a task has ended: in a step that uses hvd, report it if it failed. */
void stepd_task_exit(spank_t spank);

#endif
