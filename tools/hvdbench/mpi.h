/* mpi.h: the MPI functions that hvdbench uses. They are in a module, so that hvdbench runs without MPI too.
 */
#ifndef TOOLS_HVDBENCH_MPI_H
#define TOOLS_HVDBENCH_MPI_H

#include <stdbool.h>

#include "base/status.h"

#define BENCH_MPI_MODULE "bench_mpi.so"
#define BENCH_MPI_SYMBOL "bench_mpi_module"

struct bench_mpi {
    /* MPI_Init_thread with MPI_THREAD_SERIALIZED, which hvd's mpi backend requires. Call it only if there is
     * a PMIx server: without one, Open MPI ends the process. */
    int (*open)(struct hvd_error *err);
    int (*size)(void);            /* of MPI_COMM_WORLD */
    const char *(*version)(void); /* "Open MPI v4.1.4" */
    bool (*has)(enum hvd_dtype dtype);
    /* Sum in place over MPI_COMM_WORLD, in as few calls as MPI's int counts allow. */
    int (*allreduce)(void *data, int64_t count, enum hvd_dtype dtype, struct hvd_error *err);
    /* Move [bytes] to or from one rank of MPI_COMM_WORLD. */
    int (*send)(const void *data, int64_t bytes, int to, struct hvd_error *err);
    int (*receive)(void *data, int64_t bytes, int from, struct hvd_error *err);
    void (*close)(void);
};

#endif
