/* cases.h: the cases of hvdbench, each in a file of its own. */
#ifndef TOOLS_HVDBENCH_CASES_CASES_H
#define TOOLS_HVDBENCH_CASES_CASES_H

#include "tools/hvdbench/job.h"

/* Collective: measure, and rank 0 writes. Joined and left around them. */
int case_allreduce(struct bench *bench, struct hvd_error *err);
int case_small(struct bench *bench, struct hvd_error *err);
int case_latency(struct bench *bench, struct hvd_error *err);
int case_sweep(struct bench *bench, struct hvd_error *err);
int case_idle(struct bench *bench, struct hvd_error *err);
int case_trace(struct bench *bench, struct hvd_error *err);

/* In a process that is no rank. */
int case_bars(struct bench *bench, struct hvd_error *err);
int case_launch(struct bench *bench, struct hvd_error *err);
int case_negotiate(struct bench *bench, struct hvd_error *err);
int case_kernels(struct bench *bench, struct hvd_error *err);

#endif
