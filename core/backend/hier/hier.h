/* hier.h: shared memory inside nodes and another backend between them, beyond what all backends have: for its
 * tests. */
#ifndef BACKEND_HIER_HIER_H
#define BACKEND_HIER_HIER_H

#include "backend/hier/hier_alltoall.h"

/* As hier_node_set_chunk and hier_alltoall_set_chunk. */
void hier_set_chunk(void *team, int64_t bytes);

#endif
