/* options.h: hvdbench's command line: which case, and how. */
#ifndef TOOLS_HVDBENCH_OPTIONS_H
#define TOOLS_HVDBENCH_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

#define BENCH_RUNS_MAX 9

enum bench_case {
    BENCH_ALLREDUCE,
    BENCH_SMALL,
    BENCH_LATENCY,
    BENCH_SWEEP,
    BENCH_IDLE,
    BENCH_TRACE,
    BENCH_LAUNCH,
    BENCH_NEGOTIATE,
    BENCH_KERNELS,
    BENCH_PACK,
    BENCH_OVERHEAD,
    BENCH_BARS,
    BENCH_CASES
};

/* Options that the case does not have are 0, false or NULL, as are rounds if the case chooses their number.
 * Strings point into argv or are constants. */
struct bench_options {
    enum { BENCH_RUN, BENCH_HELP, BENCH_VERSION } action;
    enum bench_case chosen;
    bool json, no_mpi, list, alloc, gpu;
    int64_t rounds, warmup, repeats, steps, runs;
    int64_t bytes, from_bytes, to_bytes, factor;
    int64_t tensors, ranks, node_ranks, seconds;
    const char *model;
    const char *only;  /* valid names of bars; NULL: all bars */
    const char *stamp; /* "hvd", "mpi" or NULL */
};

/* Parse [argv]. Returns HVD_OK, or HVD_ERR_INVALID with the message for the user. */
int bench_options_parse(struct bench_options *options, char *const *argv, struct hvd_error *err);

/* Print the text of --help. */
void bench_options_help(FILE *to);

/* "allreduce" */
const char *bench_case_name(enum bench_case chosen);

#endif
