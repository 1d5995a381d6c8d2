/* parts.h: the cases of parts. */
#ifndef TESTS_BENCH_PARTS_H
#define TESTS_BENCH_PARTS_H

#include "tools/hvdbench/job.h"

/* Collective: measure, and rank 0 writes the result. Call them between bench_join and bench_leave. */
int case_trace(struct bench *bench, struct hvd_error *err);
int case_split(struct bench *bench, struct hvd_error *err);

/* Not collective: these run in a process that is not a rank. */
int case_negotiate(struct bench *bench, struct hvd_error *err);
int case_epochs(struct bench *bench, struct hvd_error *err);
int case_kernels(struct bench *bench, struct hvd_error *err);
int case_pack(struct bench *bench, struct hvd_error *err);

#endif
