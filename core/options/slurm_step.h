/* slurm_step.h: is a process a task of a Slurm step? Pure. */
#ifndef OPTIONS_SLURM_STEP_H
#define OPTIONS_SLURM_STEP_H

#include <stdbool.h>

/* Has srun started the process with this [environment] (NULL: this process) as a task? Not the script of a
 * batch job, nor the shell of salloc, which Slurm also runs as steps, with numbers of their own. */
bool slurm_step_is_users(char *const *environment);

#endif
