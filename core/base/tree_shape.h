/* tree_shape.h: the shape of the control tree: each rank's parent and children. Pure. */
#ifndef BASE_TREE_SHAPE_H
#define BASE_TREE_SHAPE_H

#include <stdint.h>

#include "base/status.h"

/* A rank numbers its connections in the tree: link 0 leads to its parent, links 1 .. child_count to its
 * children. */
#define TREE_MAX_LINKS 63
#define TREE_PARENT    0

#define TREE_NODE_RADIX   32 /* children of a rank inside its node; larger nodes have sub-leaders */
#define TREE_LEADER_RADIX 8  /* children of a node's leader among other nodes' leaders */

/* No rank has more children than this. A leader has children of both kinds. */
#define TREE_MAX_RADIX (TREE_NODE_RADIX - 1 + TREE_LEADER_RADIX)

/* The ranks of a node form a heap, and so do the leaders of the nodes: entry 0 is the top, and the parent of
 * entry i is entry i / radix. So entry 0 has one child less than the others, and levels fill up at the powers
 * of the radix: 8 nodes are one level deep, 64 two, 512 three. The children of an entry are those from
 * tree_shape_first_child to before tree_shape_end_of_children, as far as entries exist. */
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

/* The place of one rank in the tree. A node's leader is its lowest rank. Nodes are numbered in the order of
 * their leaders, so rank 0 leads node 0 and is the root. */
struct tree_shape {
    int node, node_count;
    int local_rank, local_size;
    int leader; /* of this rank's node */
    int parent; /* -1 at the root */
    int child_count;
    int child_ranks[TREE_MAX_LINKS - 1]; /* ascending */
};

/* [node_of_rank] holds the leader of each rank's node, for [size] ranks (node_of_rank[leader] == leader, and
 * no leader is above its rank). Returns HVD_OK, HVD_ERR_INVALID if the table breaks that rule, or
 * HVD_ERR_NO_MEMORY. */
int tree_shape_of_rank(const int *node_of_rank, int size, int rank, struct tree_shape *shape,
                       struct hvd_error *err);

#endif
