/* step.h: what Slurm tells of the step that this process belongs to. */
#ifndef SPANK_STEP_H
#define SPANK_STEP_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>

/* That many at most has a step, as in Slurm's MAX_HET_JOB_COMPS. */
#define STEP_COMPONENTS 128

/* Its number; SLURM_EXTERN_CONT where Slurm does not tell. */
uint32_t step_id(spank_t spank);

/* Is it a normal step: not a batch script, the shell of salloc, or a step that Slurm runs for itself? */
bool step_is_normal(spank_t spank);

/* In slurmstepd: the environment of the step, NULL-terminated; without any entry where Slurm does not tell.
 */
char *const *step_environment(spank_t spank);

/* In a task: read a number that Slurm has put into its environment. False, and *numberp unchanged, where
 * there is none. */
bool step_task_number(spank_t spank, const char *name, int *numberp);

#endif
