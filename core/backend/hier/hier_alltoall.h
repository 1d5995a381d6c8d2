/* hier_alltoall.h: what backend hier does inside a node in an alltoall: what its members have for others
 * comes together at those that send it to other nodes, and what is for the node itself is brought there.
 *
 * For teams with as many members on each node. */
#ifndef BACKEND_HIER_HIER_ALLTOALL_H
#define BACKEND_HIER_HIER_ALLTOALL_H

#include "backend/hier/hier_node.h"

/* Each member has room for what is on its way, this many chunks of this size: to the other nodes, and as many
 * to itself. That is 1 MiB. */
#define HIER_ALLTOALL_CHUNK_BYTES BACKEND_SOURCE_BYTES

struct hier_alltoall;

/* As hier_node_open; under another claim. */
int hier_alltoall_open(struct hier_alltoall **alltoallp, const struct hier_params *params,
                       int64_t deadline_us, struct hvd_error *err);
/* NULL is fine. */
void hier_alltoall_close(struct hier_alltoall *alltoall);

/* As hier_node_set_chunk, at most HIER_ALLTOALL_CHUNK_BYTES. */
void hier_alltoall_set_chunk(struct hier_alltoall *alltoall, int64_t bytes);

/* Begin a batch. Returns one without elements for the members that stand at the same place of each node:
 * with it their backend can connect them. It is over before the batch's own one begins. */
const struct backend_batch *hier_alltoall_start(struct hier_alltoall *alltoall,
                                                const struct backend_batch *batch);

/* One step further; *movedp is set where something was done. HVD_ERR_SYSTEM where the others' words in the
 * shared memory cannot be. */
int hier_alltoall_progress(struct hier_alltoall *alltoall, bool *movedp, struct hvd_error *err);

/* Once in a batch *slicep is not NULL: this member's batch of those that stand at the same place of each
 * node, whose feed is here, unless there is nothing in it. It is carried in whatever order with
 * hier_alltoall_progress, and both are over before the batch is. */
int hier_alltoall_slice(struct hier_alltoall *alltoall, const struct backend_batch **slicep,
                        struct hvd_error *err);

/* Has this member done all that it has to do inside the node, and was the slice handed out? */
bool hier_alltoall_is_done(const struct hier_alltoall *alltoall);

#endif
