/* srun.h: what the plug-in does inside srun: make PMIx the MPI type of steps that use hvd. */
#ifndef SPANK_SRUN_H
#define SPANK_SRUN_H

#include <stdbool.h>

/* Is an option of hvd among srun's own arguments? [argv] is srun's, [argv][0] is srun. What follows the
 * command of a step is the command's own and does not count. The answer errs towards yes: where a word may be
 * the value of an option that we do not know, it is taken for that and not for the command. */
bool srun_arguments_use_hvd(int argc, char *const argv[]);

/* Did sbatch, salloc or an outer srun hand down an option of hvd in [environment] ("NAME=value",
 * NULL-terminated)? */
bool srun_environment_uses_hvd(char *const environment[]);

/* Does a pmix plug-in for MPI lie in the folder of [file], an object of Slurm's? */
bool srun_finds_pmix_beside(const char *file);

/* Make PMIx the default MPI type of this srun if its step uses hvd and Slurm has PMIx. srun reads
 * SLURM_MPI_TYPE after the plug-ins have started and before its own arguments, so --mpi wins, as does a value
 * that is there. */
void srun_prefer_pmix(void);

#endif
