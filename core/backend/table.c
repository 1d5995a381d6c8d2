/* table.c: the planes that libhvd knows, by number. */
#include "backend/backend.h"

const struct plane_ops *const plane_table[PLANE_COUNT] = {
    [PLANE_LOCAL] = &plane_local, [PLANE_SHM] = &plane_shm,           [PLANE_HIER_MPI] = &plane_hier_mpi,
    [PLANE_MPI] = &plane_mpi,     [PLANE_HIER_TCP] = &plane_hier_tcp, [PLANE_TCP] = &plane_tcp,
};
