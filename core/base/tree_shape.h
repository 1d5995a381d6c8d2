/* tree_shape.h: the control tree: who is whose parent. Pure. */
#ifndef BASE_TREE_SHAPE_H
#define BASE_TREE_SHAPE_H

#include <stdint.h>

#include "base/status.h"

/* A rank numbers its connections in the tree: link 0 leads to its parent, links 1 .. child_count to its
 * children. */
#define TREE_MAX_LINKS 63
#define TREE_PARENT    0

#define TREE_NODE_RADIX   32 /* children of a rank inside its node; above that there are sub-leaders */
#define TREE_LEADER_RADIX 8  /* children of a node's leader among other nodes' leaders */

/* The tree's radix: no rank has more children. A leader has those of both kinds. */
#define TREE_MAX_RADIX (TREE_NODE_RADIX - 1 + TREE_LEADER_RADIX)

/* Ranks of a node, and leaders of nodes, are heaps: entry 0 is on top, the parent of entry i is entry
 * i / radix. So entry 0 has one child less than the others, and the powers of the radix are full: 8 nodes are
 * one level deep, 64 two, 512 three. Its children are those from tree_shape_first_child to below
 * tree_shape_end_of_children, as far as there are entries. */
static inline int tree_shape_parent(int index, int radix)
{
    return index == 0 ? -1 : index / radix;
}

static inline int64_t tree_shape_first_child(int index, int radix)
{
    return index == 0 ? 1 : (int64_t)index * radix;
}

static inline int64_t tree_shape_end_of_children(int index, int radix)
{
    return ((int64_t)index + 1) * radix;
}

/* Where one rank stands. A node's leader is its lowest rank; nodes are numbered by their leaders' order, so
 * that rank 0 leads node 0 and is the root. */
struct tree_shape {
    int node, node_count;
    int local_rank, local_size;
    int leader; /* of this rank's node */
    int parent; /* -1 at the root */
    int child_count;
    int child_ranks[TREE_MAX_LINKS - 1]; /* ascending */
};

/* [node_of_rank]: for each of [size] ranks the leader of its node (node_of_rank[leader] == leader, never
 * above the rank itself). HVD_OK, or HVD_ERR_INVALID where the table breaks that rule, or NO_MEMORY. */
int tree_shape_of_rank(const int *node_of_rank, int size, int rank, struct tree_shape *shape,
                       struct hvd_error *err);

#endif
