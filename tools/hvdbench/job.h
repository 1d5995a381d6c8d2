/* job.h: the job that hvdbench is a rank of. */
#ifndef TOOLS_HVDBENCH_JOB_H
#define TOOLS_HVDBENCH_JOB_H

#include <time.h>

#include "base/clock.h"
#include "tools/hvdbench/mpi.h"
#include "tools/hvdbench/options.h"

struct bench {
    const struct bench_program *program;
    const struct bench_options *options;
    int rank, size, local_size, node_count;
    int cores[2];   /* the lowest and the highest of the first cores of the ranks on the first node */
    double line_ns; /* round trip of a cache line between them; NAN if unknown */
    const struct bench_mpi *mpi; /* NULL: MPI is left out */
    char mpi_why[600];           /* why MPI is left out; "" if it is not */
    bool agreed;                 /* all ranks know of the failure, so that one of them reports it */
};

/* Initialise MPI, if the case measures it too, and then hvd. */
int bench_join(struct bench *bench, bool wants_mpi, struct hvd_error *err);

/* Shut both down. */
int bench_leave(struct bench *bench, struct hvd_error *err);

/* Store "[what]: " and the text of hvd's last error in [err]. Returns [status]. */
int bench_hvd_error(int status, const char *what, struct hvd_error *err);

/* Collective: returns HVD_OK if all ranks pass HVD_OK, otherwise the status and error of the first rank that
 * does not. */
int bench_agree(struct bench *bench, int status, struct hvd_error *err);

/* Collective: replace each number by its maximum, or its sum, over all ranks. */
int bench_max(double *numbers, int64_t count, struct hvd_error *err);
int bench_sum(double *numbers, int64_t count, struct hvd_error *err);

/* Load the MPI module and initialise MPI. Returns NULL with the reason in [why]. */
const struct bench_mpi *bench_open_mpi(struct hvd_error *why);

/* Processor time of all threads of this process. */
static inline double bench_cpu_us(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

#endif
