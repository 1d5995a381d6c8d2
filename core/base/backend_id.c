/* backend_id.c: the names of the backends. */
#include "base/backend_id.h"

#include <stddef.h>

const char *const backend_names[BACKEND_COUNT + 1] = {
    [BACKEND_LOCAL] = "local", [BACKEND_SHM] = "shm",           [BACKEND_HIER_MPI] = "hier-mpi",
    [BACKEND_MPI] = "mpi",     [BACKEND_HIER_TCP] = "hier-tcp", [BACKEND_TCP] = "tcp",
    [BACKEND_NCCL] = "nccl",   [BACKEND_COUNT] = NULL};
