/* srun_verdict.h: name in srun the rank that failed first, as the last thing that a step prints. */
#ifndef SPANK_SRUN_VERDICT_H
#define SPANK_SRUN_VERDICT_H

/* Listen for the nodes' reports, and tell the nodes where. The kernel takes the reports while the step runs:
 * there is no thread, and nothing is read before the end. */
void srun_verdict_listen(void);

/* The socket where the reports come; -1: srun does not listen. */
int srun_verdict_fd(void);

/* When the step has ended: read the reports, and print one line if a rank has failed. */
void srun_verdict_print(void);

#endif
