/* hier.h: shared memory inside nodes and another plane between them, beyond what all planes have: for its
 * tests. */
#ifndef BACKEND_HIER_HIER_H
#define BACKEND_HIER_HIER_H

#include "backend/hier/hier_alltoall.h"

/* As hier_stage_set_chunk and hier_alltoall_set_chunk. */
void hier_set_chunk(void *team, int64_t bytes);

#endif
