/* task_report.h: what a task of a Slurm step itself tells srun. */
#ifndef API_TASK_REPORT_H
#define API_TASK_REPORT_H

#include "verdict/failure_report.h"

/* Fill in the rank, the size of the step, the process and the node. False where Slurm has not started this
 * process as a rank of a job; rank and size are then -1 or wrong. */
bool task_report_fill(struct failure_report *report);

/* [listener]: what a variable of failure_report.h says. Returns as failure_report_send. */
bool task_report_send(const char *listener, const struct failure_report *report);

#endif
