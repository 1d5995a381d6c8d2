/* cases.h: the cases of hvdbench. */
#ifndef TOOLS_HVDBENCH_CASES_CASES_H
#define TOOLS_HVDBENCH_CASES_CASES_H

#include "tools/hvdbench/job.h"

extern const struct bench_program hvdbench_program;

/* Collective: measure, and rank 0 writes the result. Call them between bench_join and bench_leave. */
int case_allreduce(struct bench *bench, struct hvd_error *err);
int case_small(struct bench *bench, struct hvd_error *err);
int case_latency(struct bench *bench, struct hvd_error *err);
int case_sweep(struct bench *bench, struct hvd_error *err);
int case_p2p(struct bench *bench, struct hvd_error *err);
int case_idle(struct bench *bench, struct hvd_error *err);
int case_overhead(struct bench *bench, struct hvd_error *err);
int case_staging(struct bench *bench, struct hvd_error *err);

/* Not collective: it runs in a process that is not a rank, or as the ranks that this one starts. */
int case_launch(struct bench *bench, struct hvd_error *err);

#endif
