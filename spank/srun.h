/* srun.h: what the plug-in does in srun for steps that use hvd: make PMIx their MPI type, and draw a secret.
 */
#ifndef SPANK_SRUN_H
#define SPANK_SRUN_H

#include <stdbool.h>

/* How the secret travels from srun to the tasks: Slurm hands variables with this prefix on even if the user
 * wants none (--export=NONE). */
#define SRUN_SECRET_VARIABLE "SLURM_HVD_JOB_KEY"

/* Is an option of hvd among srun's own arguments? [argv] is srun's, and [argv][0] is srun. What follows the
 * command of a step belongs to the command and does not count. If in doubt the answer is yes: a word that may
 * be the value of an option that we do not know is regarded as its value and not as the command. */
bool srun_arguments_use_hvd(int argc, char *const argv[]);

/* Did sbatch, salloc or an outer srun hand down an option of hvd in [environment] ("NAME=value",
 * NULL-terminated)? */
bool srun_environment_uses_hvd(char *const environment[]);

/* Is there a pmix plug-in for MPI in the folder of [file], one of Slurm's objects? */
bool srun_finds_pmix_beside(const char *file);

/* Does the step of this srun use hvd, by its command line or by what sbatch, salloc or an outer srun handed
 * down? */
bool srun_uses_hvd(void);

/* Draw the secret of this step's ranks, and hand it to stepd_task_init by the environment. */
void srun_draw_secret(void);

/* Make PMIx the default MPI type of this srun if Slurm has PMIx. srun reads
 * SLURM_MPI_TYPE after the plug-ins have started and before its own arguments, so --mpi takes precedence, and
 * so does a SLURM_MPI_TYPE that is already set. */
void srun_prefer_pmix(void);

#endif
