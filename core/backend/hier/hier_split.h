/* hier_split.h: how a team lies on nodes, and how its batches are split for them. Pure.
 *
 * There are as many slices as the smallest node has members. The k-th member of each node carries slice k to
 * other nodes. In reducescatter and allgather, where parts of the batch belong to members, the parts of one
 * node's members form a block, and each block is divided among the slices. Any other batch is one block. A
 * slice is processed block by block, in chunks; no chunk spans two blocks. */
#ifndef BACKEND_HIER_HIER_SPLIT_H
#define BACKEND_HIER_HIER_SPLIT_H

#include "backend/backend.h"
#include "backend/range.h"

/* The nodes of a team, in the order of its members. [node] is this member's. */
struct hier_nodes {
    int count, node;
    int slices;
    int *firsts; /* [count + 1]: node i has the members from firsts[i] to firsts[i + 1] - 1 */
};

/* For a team that team_spans_nodes accepts. HVD_OK or HVD_ERR_NO_MEMORY. Free with hier_nodes_fini, which
 * also takes zeroed nodes. */
int hier_nodes_init(struct hier_nodes *nodes, const int *node_of_rank, const struct team *team);
void hier_nodes_fini(struct hier_nodes *nodes);

/* For tests: the node of [member]. */
int hier_node_of(const struct hier_nodes *nodes, int member);

struct hier_split {
    const struct hier_nodes *nodes;
    enum backend_kind kind;
    int root_node;   /* broadcast */
    int64_t longest; /* the most elements of a chunk */
    int blocks;
    int64_t *begins; /* [blocks + 1]: where each begins, and where the last one ends */
};

/* A cursor over [left] blocks of one slice, each [step] after the previous one, wrapping round. */
struct hier_cursor {
    int block, step, left;
    int64_t within; /* elements of the slice's part of [block] that are before it */
};

/* Split a batch into chunks of at most [longest] elements. [begins] has room for nodes->count + 1 numbers and
 * must outlive the split. */
void hier_split_batch(struct hier_split *split, const struct hier_nodes *nodes,
                      const struct backend_batch *batch, int64_t longest, int64_t *begins);

/* The part of a block that belongs to [slice]. */
struct range hier_slice_range(const struct hier_split *split, int block, int slice);

/* A cursor over the inputs of this node's members, and one over the results that they get. They start the
 * same for each slice. */
struct hier_cursor hier_input_cursor(const struct hier_split *split);
struct hier_cursor hier_output_cursor(const struct hier_split *split);

/* The next chunk of [slice]; false at the end. */
bool hier_cursor_next(const struct hier_split *split, int slice, struct hier_cursor *cursor,
                      struct range *piece);

/* How many chunks of [slice] the cursor passes. No slice has more of them than slice 0. */
int64_t hier_chunk_count(const struct hier_split *split, int slice, struct hier_cursor cursor);

#endif
