/* hier_node.h: the part of a hierarchical collective inside a node: it brings the members' inputs, chunk by
 * chunk, to those that carry slices to other nodes, and distributes the results to all. */
#ifndef BACKEND_HIER_HIER_NODE_H
#define BACKEND_HIER_HIER_NODE_H

#include "backend/hier/hier_split.h"
#include "node/arena.h"
#include "node/counters.h"

/* The size of a chunk. It is smaller where there are many slices, so that a slot, which holds a chunk of each
 * slice, takes HIER_ROUND_BYTES. */
#define HIER_CHUNK_BYTES BACKEND_SOURCE_BYTES
#define HIER_ROUND_BYTES ((int64_t)512 * 1024)

struct hier_node;

/* Where this member is. What the pointers point to must outlive the hier_node. */
struct hier_params {
    const struct team *team;
    const struct hier_nodes *nodes;
    const struct arena *arena;
    int claim; /* the number under which the members of this node acquire their region of the arena */
};

/* Fails as arena_acquire does, or with HVD_ERR_NO_MEMORY. */
int hier_node_open(struct hier_node **hier_nodep, const struct hier_params *params, int64_t deadline_us,
                   struct hvd_error *err);
/* NULL is fine. */
void hier_node_close(struct hier_node *hier_node);

/* A hook for tests: small chunks let small batches have many. Use chunks of [bytes], a multiple of 64, at
 * most HIER_CHUNK_BYTES and no larger than before. All members call it, before the first batch. */
void hier_node_set_chunk(struct hier_node *hier_node, int64_t bytes);

/* The slice that this member carries, or -1. */
int hier_node_slice(const struct hier_node *hier_node);

/* Begin a batch. *slicep is this member's slice of it: a batch for the team of those that carry the same
 * slice, with this hier_node as its source. It is NULL if this member carries no slice, or an empty one. The
 * slice is run, and hier_node_progress called, in any order; the batch is complete when both are. */
int hier_node_start(struct hier_node *hier_node, const struct backend_batch *batch,
                    const struct backend_batch **slicep, struct hvd_error *err);

/* Advance one step by one chunk; false if no step can be advanced now. */
bool hier_node_progress(struct hier_node *hier_node);

/* A member on this node that has not published the input of the slice that this member carries; -1: none. */
int hier_node_waits_for_input(const struct hier_node *hier_node);

/* A member on this node that this one waits for in its next step inside the node; -1: none. */
int hier_node_waits_for(const struct hier_node *hier_node);

/* Has this member done all its work inside the node? */
bool hier_node_is_done(const struct hier_node *hier_node);

#endif
