/* cases.h: the cases of hvdbench. */
#ifndef TOOLS_HVDBENCH_CASES_CASES_H
#define TOOLS_HVDBENCH_CASES_CASES_H

#include "tools/hvdbench/job.h"

/* Collective: measure, and rank 0 writes the result. Call them between bench_join and bench_leave. */
int case_allreduce(struct bench *bench, struct hvd_error *err);
int case_small(struct bench *bench, struct hvd_error *err);
int case_latency(struct bench *bench, struct hvd_error *err);
int case_sweep(struct bench *bench, struct hvd_error *err);
int case_idle(struct bench *bench, struct hvd_error *err);
int case_overhead(struct bench *bench, struct hvd_error *err);
int case_trace(struct bench *bench, struct hvd_error *err);

/* Not collective: these run in a process that is not a rank. */
int case_bars(struct bench *bench, struct hvd_error *err);
int case_launch(struct bench *bench, struct hvd_error *err);
int case_negotiate(struct bench *bench, struct hvd_error *err);
int case_kernels(struct bench *bench, struct hvd_error *err);
int case_pack(struct bench *bench, struct hvd_error *err);

#endif
