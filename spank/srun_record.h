/* srun_record.h: write into the comment of the job which options of hvd its step was given. */
#ifndef SPANK_SRUN_RECORD_H
#define SPANK_SRUN_RECORD_H

#include <slurm/spank.h>

/* In srun, as the user, once the step is there. A comment of the user's stays; one of an earlier step is
 * replaced. What fails is told with -v, and harms nobody. */
void srun_record(spank_t spank);

#endif
