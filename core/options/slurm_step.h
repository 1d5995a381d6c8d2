/* slurm_step.h: what Slurm's variables say of a process: is it a task of a step, and what was its job given?
 * Pure. */
#ifndef OPTIONS_SLURM_STEP_H
#define OPTIONS_SLURM_STEP_H

#include <stdbool.h>

/* Has srun started the process with this [environment] (NULL: this process) as a task? Not the script of a
 * batch job, nor the shell of salloc, which Slurm also runs as steps, with numbers of their own. */
bool slurm_step_is_users(char *const *environment);

/* sbatch and salloc hand the plug-in's options down to commands of the job in variables that begin so:
 * "..._hvd" has --hvd, "..._hvd_fusion" has --hvd-fusion. */
#define SLURM_HANDED_DOWN "SLURM_SPANK__SLURM_SPANK_OPTION_hvd_"

/* Was --hvd given to the job's sbatch or salloc, and not --hvd=off? */
bool slurm_job_has_hvd(char *const *environment);

#endif
