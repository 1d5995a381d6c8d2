/* hier.h: the hierarchical backends, hier-tcp and hier-mpi, for teams on several nodes with several members
 * on some of them. Data goes through shared memory inside a node, and through another backend, the carrier,
 * between nodes.
 *
 * hier/ promises the rest of backend/ these two rows of the table. Each element is reduced in the order of
 * ranks, as in every backend. The stages: hier.c has the calls of the two backends; hier_team.c runs a batch
 * inside the node and between nodes at the same time; hier_split.c cuts it into slices; hier_node.c moves the
 * data inside the node, and hier_alltoall.c does so in an alltoall. This header adds what only tests need. */
#ifndef BACKEND_HIER_HIER_H
#define BACKEND_HIER_HIER_H

#include "backend/hier/hier_alltoall.h"

/* For tests: as hier_node_set_chunk and hier_alltoall_set_chunk. */
void hier_set_chunk(void *team, int64_t bytes);

#endif
