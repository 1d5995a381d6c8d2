/* table.c: the backends that libhvd knows, by number. */
#include "backend/backend.h"

const struct backend_ops *const backend_table[BACKEND_COUNT] = {
    [BACKEND_LOCAL] = &backend_local,       [BACKEND_SHM] = &backend_shm,
    [BACKEND_HIER_MPI] = &backend_hier_mpi, [BACKEND_MPI] = &backend_mpi,
    [BACKEND_HIER_TCP] = &backend_hier_tcp, [BACKEND_TCP] = &backend_tcp,
    [BACKEND_NCCL] = &backend_nccl,
};
