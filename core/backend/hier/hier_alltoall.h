/* hier_alltoall.h: the part of a hierarchical alltoall inside a node: it brings what the node's members send
 * to another node together at the one member that sends it there, and passes on what stays on the node.
 *
 * For teams with equally many members on each node. */
#ifndef BACKEND_HIER_HIER_ALLTOALL_H
#define BACKEND_HIER_HIER_ALLTOALL_H

#include "backend/hier/hier_node.h"

/* The size of a chunk. Each member has SLOTS slots of this size for what goes to other nodes, and as many for
 * what it receives from its own node: about 1 MiB together. */
#define HIER_ALLTOALL_CHUNK_BYTES BACKEND_SOURCE_BYTES

struct hier_alltoall;

/* As hier_node_open, but under another claim. */
int hier_alltoall_open(struct hier_alltoall **alltoallp, const struct hier_params *params,
                       int64_t deadline_us, struct hvd_error *err);
/* NULL is fine. */
void hier_alltoall_close(struct hier_alltoall *alltoall);

/* As hier_node_set_chunk, at most HIER_ALLTOALL_CHUNK_BYTES. */
void hier_alltoall_set_chunk(struct hier_alltoall *alltoall, int64_t bytes);

/* Begin a batch. Returns a batch without elements for the team of the members at this member's place on each
 * node, with which their backend can connect them. It must be complete before the slice of this batch begins.
 */
const struct backend_batch *hier_alltoall_start(struct hier_alltoall *alltoall,
                                                const struct backend_batch *batch);

/* Advance by one step; *movedp is set if something was done. HVD_ERR_SYSTEM: what another member wrote into
 * the shared memory cannot be true. */
int hier_alltoall_progress(struct hier_alltoall *alltoall, bool *movedp, struct hvd_error *err);

/* Once in each batch, *slicep becomes this member's slice, unless that is empty: a batch for the team of the
 * members at this member's place on each node, with a feed from here. Otherwise *slicep is NULL. The slice is
 * run, and hier_alltoall_progress called, in any order; the alltoall is complete when both are. */
int hier_alltoall_slice(struct hier_alltoall *alltoall, const struct backend_batch **slicep,
                        struct hvd_error *err);

/* As hier_node_waits_for_input and hier_node_waits_for. */
int hier_alltoall_waits_for_input(const struct hier_alltoall *alltoall);
int hier_alltoall_waits_for(const struct hier_alltoall *alltoall);

/* Has this member done all its work inside the node, and has the slice been handed out or found empty? */
bool hier_alltoall_is_done(const struct hier_alltoall *alltoall);

#endif
