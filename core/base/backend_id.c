/* backend_id.c: the names of the planes. */
#include "base/backend_id.h"

#include <stddef.h>

const char *const plane_names[PLANE_COUNT + 1] = {
    [PLANE_LOCAL] = "local",       [PLANE_SHM] = "shm", [PLANE_HIER_MPI] = "hier-mpi", [PLANE_MPI] = "mpi",
    [PLANE_HIER_TCP] = "hier-tcp", [PLANE_TCP] = "tcp", [PLANE_COUNT] = NULL};
