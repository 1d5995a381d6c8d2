/* tree_shape.c: the shape of the control tree: each rank's parent and children. Pure. */
#include "base/tree_shape.h"

#include <stdlib.h>

#include "base/rank_list.h"

_Static_assert(TREE_MAX_RADIX < TREE_MAX_LINKS, "a rank's children and its parent are links");

/* A list of ranks in ascending order, read as a heap. */
struct heap {
    int *ranks;
    int count;
    int radix;
};

static void heap_children(const struct heap *heap, int index, struct tree_shape *shape)
{
    int64_t end = tree_shape_end_of_children(index, heap->radix);
    for (int64_t child = tree_shape_first_child(index, heap->radix); child < end && child < heap->count;
         child++)
        shape->child_ranks[shape->child_count++] = heap->ranks[child];
}

static int check_table(const int *node_of_rank, int size, int rank, struct hvd_error *err)
{
    if (rank < 0 || rank >= size)
        return error_set(err, HVD_ERR_INVALID, "shape of rank %d: a job of %d ranks has none of that number",
                         rank, size);
    for (int i = 0; i < size; i++) {
        int leader = node_of_rank[i];
        if (leader < 0 || leader > i || node_of_rank[leader] != leader)
            return error_set(
                err, HVD_ERR_INVALID,
                "rank %d names %d as the leader of its node; expected the lowest rank of that node", i,
                leader);
    }
    return HVD_OK;
}

int tree_shape_of_rank(const int *node_of_rank, int size, int rank, struct tree_shape *shape,
                       struct hvd_error *err)
{
    int rc = check_table(node_of_rank, size, rank, err);
    if (rc != HVD_OK)
        return rc;
    int *ranks = malloc(2 * (size_t)size * sizeof(*ranks));
    if (ranks == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the control tree of %d ranks", size);

    struct heap members = {ranks, 0, TREE_NODE_RADIX};
    struct heap leaders = {ranks + size, 0, TREE_LEADER_RADIX};
    *shape = (struct tree_shape){.leader = node_of_rank[rank], .parent = -1};
    for (int i = 0; i < size; i++) {
        if (i == shape->leader)
            shape->node = leaders.count;
        if (i == rank)
            shape->local_rank = members.count;
        if (node_of_rank[i] == i)
            leaders.ranks[leaders.count++] = i;
        if (node_of_rank[i] == shape->leader)
            members.ranks[members.count++] = i;
    }
    shape->node_count = leaders.count;
    shape->local_size = members.count;

    heap_children(&members, shape->local_rank, shape);
    if (shape->local_rank > 0)
        shape->parent = members.ranks[tree_shape_parent(shape->local_rank, members.radix)];
    else if (shape->node > 0)
        shape->parent = leaders.ranks[tree_shape_parent(shape->node, leaders.radix)];
    if (shape->local_rank == 0)
        heap_children(&leaders, shape->node, shape);
    rank_list_sort(shape->child_ranks, shape->child_count);
    free(ranks);
    return HVD_OK;
}
