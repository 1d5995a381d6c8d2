/* hier_node.h: what a team on two levels does inside a node: the inputs of its members come together piece
 * by piece for those that carry slices to other nodes, and results go back to all. */
#ifndef BACKEND_HIER_HIER_NODE_H
#define BACKEND_HIER_HIER_NODE_H

#include "backend/hier/hier_split.h"
#include "node/arena.h"
#include "node/counters.h"

/* Of a piece in a slot; less where a node has many slices, so that all of one turn take HIER_ROUND_BYTES. */
#define HIER_CHUNK_BYTES BACKEND_SOURCE_BYTES
#define HIER_ROUND_BYTES ((int64_t)512 * 1024)

struct hier_node;

/* Where this member sits. Borrowed, but for the claim. */
struct hier_params {
    const struct team *team;
    const struct hier_nodes *nodes;
    const struct arena *arena;
    int claim; /* the number under which the members of this node share a region of it */
};

/* What the members of [node] claim of their arena, where there are several. */
size_t hier_node_bytes(const struct hier_nodes *nodes, int node);

/* As arena_acquire; HVD_ERR_NO_MEMORY. */
int hier_node_open(struct hier_node **stagep, const struct hier_params *params, int64_t deadline_us,
                   struct hvd_error *err);
/* NULL is fine. */
void hier_node_close(struct hier_node *hier_node);

/* A hook for tests: small chunks let small batches have many. Use chunks of [bytes], a multiple of 64, at
 * most HIER_CHUNK_BYTES and no larger than before. All members call it, before the first batch. */
void hier_node_set_chunk(struct hier_node *hier_node, int64_t bytes);

/* The slice that this member carries, or -1. */
int hier_node_slice(const struct hier_node *hier_node);

/* Begin a batch. *slicep: this member's slice of it, a batch for the members that carry the same one, whose
 * source is the hier_node; NULL where there is none, or nothing in it. It is carried in whatever order with
 * hier_node_progress, and both are over before the batch is. */
int hier_node_start(struct hier_node *hier_node, const struct backend_batch *batch,
                    const struct backend_batch **slicep, struct hvd_error *err);

/* One piece further; false where nothing can be done now. */
bool hier_node_progress(struct hier_node *hier_node);

/* Has this member done all that it has to do inside the node? */
bool hier_node_is_done(const struct hier_node *hier_node);

#endif
