/* task_place.h: tell a task its place in the step by the variables of torchrun and horovodrun, for programs
 * that do not ask PMIx. */
#ifndef SPANK_TASK_PLACE_H
#define SPANK_TASK_PLACE_H

#include <slurm/spank.h>

#include "spank/site.h"

/* For tests: a port for MASTER_PORT that all tasks of the step compute alike. */
int task_place_port(const struct site *site, uint32_t job, uint32_t step);

/* In slurmstepd, before it forks the tasks of a step that uses hvd, after failure_reporter_begin: see whether
 * the name of rank 0's node is good here for MASTER_ADDR, and ask srun for the address if not. */
void task_place_prepare(spank_t spank);

/* In a task that is to start. Does nothing in steps that do not use hvd. */
void task_place_init(spank_t spank, const struct site *site);

#endif
