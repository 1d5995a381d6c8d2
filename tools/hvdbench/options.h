/* options.h: the command line of hvdbench and of tests/bench/parts: which case, and how. */
#ifndef TOOLS_HVDBENCH_OPTIONS_H
#define TOOLS_HVDBENCH_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

/* The options of cases. */
enum bench_option {
    OPTION_END, /* ends a list */
    OPTION_MODEL,
    OPTION_ROUNDS,
    OPTION_WARMUP,
    OPTION_REPEATS,
    OPTION_STEPS,
    OPTION_BYTES,
    OPTION_FROM,
    OPTION_TO,
    OPTION_FACTOR,
    OPTION_TENSORS,
    OPTION_RANKS,
    OPTION_NODE_RANKS,
    OPTION_SECONDS,
    OPTION_STAMP,
    OPTION_ALLOC,
    OPTION_AVERAGE,
    OPTION_TYPES,
    OPTION_COLLECTIVE,
    OPTION_GPU,
    OPTION_NO_MPI,
    OPTION_JSON, /* from here on, those of every case */
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_COUNT
};

struct bench;

/* How many processes a case runs in. */
enum case_processes {
    IN_JOB,  /* the ranks of a job */
    ALONE,   /* one process, which must not run several times at once */
    STARTING /* one process, which starts ranks of its own, and is those ranks as well */
};

/* One measurement. */
struct bench_case {
    const char *name, *help;
    struct {
        enum bench_option id;
        const char *def; /* NULL: no default */
    } taken[9];          /* ended by OPTION_END */
    enum case_processes processes;
    bool wants_mpi; /* measures MPI too, in the same process */
    int (*run)(struct bench *bench, struct hvd_error *err);
};

/* A program that measures some cases. */
struct bench_program {
    const char *name;
    const char *usage; /* the first lines of --help */
    int case_count;
    const struct bench_case *cases;
};

/* Options that the case does not have are 0, false or NULL, as are rounds if the case chooses their number.
 * Strings point into argv or are constants. */
struct bench_options {
    enum { BENCH_RUN, BENCH_HELP, BENCH_VERSION } action;
    const struct bench_case *chosen; /* NULL for BENCH_HELP and BENCH_VERSION without a case */
    bool json, no_mpi, alloc, gpu, average;
    int64_t rounds, warmup, repeats, steps;
    int64_t bytes, from_bytes, to_bytes, factor;
    int64_t tensors, types, ranks, node_ranks, seconds;
    enum { BENCH_ALLREDUCE, BENCH_BROADCAST } collective;
    const char *model;
    const char *stamp; /* "hvd", "mpi" or NULL */
};

/* Parse [argv]. Returns HVD_OK, or HVD_ERR_INVALID with the message for the user. */
int bench_options_parse(struct bench_options *options, const struct bench_program *program, char *const *argv,
                        struct hvd_error *err);

/* Print the text of --help. */
void bench_options_help(FILE *to, const struct bench_program *program);

#endif
