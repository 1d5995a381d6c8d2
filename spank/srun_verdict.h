/* srun_verdict.h: name in srun the rank that failed first, as the last thing that a step prints. */
#ifndef SPANK_SRUN_VERDICT_H
#define SPANK_SRUN_VERDICT_H

/* When the step has ended: print one line if a rank has failed, as the nodes have reported to srun_watch. */
void srun_verdict_print(void);

#endif
