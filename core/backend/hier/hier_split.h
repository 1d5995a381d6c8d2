/* hier_split.h: how a team lies on nodes, and how its batches are split for them. Pure.
 *
 * As many members of each node as the smallest one has carry to other nodes, the k-th of each node slice k.
 * Where a batch has parts that belong to members, reducescatter and allgather, the parts of a node's members
 * are a block, and each block is shared out over the slices; otherwise the batch is one block. What is of a
 * slice goes piece by piece, block by block; no piece is of two blocks. */
#ifndef BACKEND_HIER_HIER_SPLIT_H
#define BACKEND_HIER_HIER_SPLIT_H

#include "backend/backend.h"
#include "backend/range.h"

/* The nodes of a team, in the order of its members, and which is this member's. */
struct hier_nodes {
    int count, node;
    int slices;
    int *firsts; /* [count + 1]: node i has the members from firsts[i] to firsts[i + 1] - 1 */
};

/* Of a team that is spread so. HVD_OK or HVD_ERR_NO_MEMORY; free with hier_nodes_fini, which a zeroed one is
 * fine for.
 */
int hier_nodes_init(struct hier_nodes *nodes, const int *node_of_rank, const struct team *team);
void hier_nodes_fini(struct hier_nodes *nodes);

/* The node of [member]. */
int hier_node_of(const struct hier_nodes *nodes, int member);

struct hier_split {
    const struct hier_nodes *nodes;
    enum backend_kind kind;
    int root_node;   /* broadcast */
    int64_t longest; /* elements of a piece at most */
    int blocks;
    int64_t *begins; /* [blocks + 1]: where each begins, and the last one ends */
};

/* A way through the blocks of one slice: [left] of them, each [step] after the one before, round the end. */
struct hier_cursor {
    int block, step, left;
    int64_t within; /* elements of the slice's part of [block] are behind it */
};

/* [begins] has room for one more than there are nodes. */
void hier_split_batch(struct hier_split *split, const struct hier_nodes *nodes,
                      const struct backend_batch *batch, int64_t longest, int64_t *begins);

/* What [slice] has of a block. */
struct range hier_slice_range(const struct hier_split *split, int block, int slice);

/* Through what this node's members give to each slice, and through the results that its members get of it. */
struct hier_cursor hier_input_cursor(const struct hier_split *split);
struct hier_cursor hier_output_cursor(const struct hier_split *split);

/* The next piece of [slice]; false at the end. */
bool hier_cursor_next(const struct hier_split *split, int slice, struct hier_cursor *cursor,
                      struct range *piece);

/* Pieces of [slice] on that way. No slice has more of them than slice 0. */
int64_t hier_chunk_count(const struct hier_split *split, int slice, struct hier_cursor cursor);

#endif
