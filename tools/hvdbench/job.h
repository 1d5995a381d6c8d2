/* job.h: the job that hvdbench is a rank of: to join it, and to fail in it together. */
#ifndef TOOLS_HVDBENCH_JOB_H
#define TOOLS_HVDBENCH_JOB_H

#include <time.h>

#include "tools/hvdbench/mpi.h"
#include "tools/hvdbench/options.h"

struct bench {
    const struct bench_options *options;
    int rank, size, local_size, node_count;
    int cores[2];   /* the first and the last of those that ranks of the first node begin on */
    double line_ns; /* a cache line from one to the other and back; NAN where that is not known */
    const struct bench_mpi *mpi; /* NULL: left out */
    char mpi_why[600];           /* why it is left out, as a phrase; "" where it is not */
    bool agreed;                 /* what failed is known to all ranks: one of them says it */
};

/* Initialise MPI where the case measures it beside hvd, and then hvd. */
int bench_join(struct bench *bench, bool wants_mpi, struct hvd_error *err);

/* Shut both down. */
int bench_leave(struct bench *bench, struct hvd_error *err);

/* The sentence of hvd's last error in [err], behind [what]. */
int bench_hvd_error(int status, const char *what, struct hvd_error *err);

/* Collective: HVD_OK where all ranks give that, otherwise the status and sentence of the first that does not.
 */
int bench_agree(struct bench *bench, int status, struct hvd_error *err);

/* Collective: the greatest of each number over all ranks, in place. */
int bench_max(double *numbers, int64_t count, struct hvd_error *err);

/* Open the module that holds MPI, and initialise MPI. NULL with the reason as a phrase in [why]. */
const struct bench_mpi *bench_open_mpi(struct hvd_error *why);

static inline int64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
