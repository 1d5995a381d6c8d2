/* shape.h: the control tree: who is whose parent. Pure. */
#ifndef CONTROL_SHAPE_H
#define CONTROL_SHAPE_H

#include "control/control.h"

#define SHAPE_NODE_RADIX 32 /* children of a rank inside its node; above that there are sub-leaders */
#define SHAPE_TREE_RADIX 8  /* children of a node's leader among other nodes' leaders */

/* Where one rank stands. A node's leader is its lowest rank; nodes are numbered by their leaders' order, so
 * that rank 0 leads node 0 and is the root. */
struct shape {
    int node, node_count;
    int local_rank, local_size;
    int leader; /* of this rank's node */
    int parent; /* -1 at the root */
    int child_count;
    int child_ranks[CONTROL_MAX_LINKS - 1]; /* ascending */
};

/* [node_of_rank]: for each of [size] ranks the leader of its node (node_of_rank[leader] == leader, never
 * above the rank itself). HVD_OK, or HVD_ERR_INVALID where the table breaks that rule, or NO_MEMORY. */
int shape_of_rank(const int *node_of_rank, int size, int rank, struct shape *shape, struct hvd_error *err);

#endif
