/* hier_split.c: how a team lies on nodes, and how its batches are split for them. */
#include "backend/hier/hier_split.h"

#include <stdlib.h>

#include "backend/team.h"

#define GRAIN 64 /* elements: slices begin on a cache line */

/* ---- Nodes ---------------------------------------------------------------------------------- */

int hier_nodes_init(struct hier_nodes *nodes, const int *node_of_rank, const struct team *team)
{
    *nodes = (struct hier_nodes){.slices = team->size};
    for (int first = 0; first < team->size; first = team_node_end(node_of_rank, team, first))
        nodes->count++;
    nodes->firsts = calloc((size_t)nodes->count + 1, sizeof(*nodes->firsts));
    if (nodes->firsts == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int node = 0; node < nodes->count; node++) {
        int first = nodes->firsts[node];
        int end = team_node_end(node_of_rank, team, first);
        nodes->slices = end - first < nodes->slices ? end - first : nodes->slices;
        nodes->firsts[node + 1] = end;
    }
    nodes->node = hier_node_of(nodes, team->rank);
    return HVD_OK;
}

void hier_nodes_fini(struct hier_nodes *nodes)
{
    free(nodes->firsts);
    nodes->firsts = NULL;
}

int hier_node_of(const struct hier_nodes *nodes, int member)
{
    int node = 0;
    while (nodes->firsts[node + 1] <= member)
        node++;
    return node;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* Where each node's block begins, and where the last one ends. */
static void node_begins(const struct hier_nodes *nodes, const int64_t *counts, int64_t *begins)
{
    int64_t begin = 0;
    for (int node = 0; node < nodes->count; node++) {
        begins[node] = begin;
        for (int i = nodes->firsts[node]; i < nodes->firsts[node + 1]; i++)
            begin += counts[i];
    }
    begins[nodes->count] = begin;
}

void hier_split_batch(struct hier_split *split, const struct hier_nodes *nodes,
                      const struct backend_batch *batch, int64_t longest, int64_t *begins)
{
    enum backend_kind kind = batch->need.kind;
    bool by_node = kind == COLL_REDUCESCATTER || kind == COLL_ALLGATHER;
    *split = (struct hier_split){.nodes = nodes,
                                 .kind = kind,
                                 .longest = longest,
                                 .blocks = by_node ? nodes->count : 1,
                                 .begins = begins};
    if (kind == COLL_BROADCAST)
        split->root_node = hier_node_of(nodes, batch->root);
    if (by_node) {
        node_begins(nodes, batch->counts, begins);
    } else {
        begins[0] = 0;
        begins[1] = batch->count;
    }
}

/* How many of a block's [count] elements are before [slice]. A small block is slice 0's alone, and no slice
 * gets more than slice 0. */
static int64_t before_slice(int64_t count, int slice, int slices)
{
    int64_t grains = count / GRAIN + (count % GRAIN != 0);
    int64_t before = (grains * slice + slices - 1) / slices * GRAIN;
    return before < count ? before : count;
}

struct range hier_slice_range(const struct hier_split *split, int block, int slice)
{
    int64_t count = split->begins[block + 1] - split->begins[block];
    int64_t begin = before_slice(count, slice, split->nodes->slices);
    int64_t end = before_slice(count, slice + 1, split->nodes->slices);
    return (struct range){split->begins[block] + begin, end - begin};
}

/* ---- Cursors -------------------------------------------------------------------------------- */

struct hier_cursor hier_input_cursor(const struct hier_split *split)
{
    int node = split->nodes->node;
    switch (split->kind) {
    case COLL_REDUCESCATTER:
        return (struct hier_cursor){.step = 1, .left = split->blocks};
    case COLL_ALLGATHER:
        return (struct hier_cursor){.block = node, .step = 1, .left = 1};
    case COLL_BROADCAST:
        return (struct hier_cursor){.step = 1, .left = node == split->root_node ? 1 : 0};
    default:
        return (struct hier_cursor){.step = 1, .left = 1};
    }
}

struct hier_cursor hier_output_cursor(const struct hier_split *split)
{
    int node = split->nodes->node;
    switch (split->kind) {
    case COLL_REDUCESCATTER:
        return (struct hier_cursor){.block = node, .step = 1, .left = 1};
    case COLL_ALLGATHER:
        return (struct hier_cursor){.block = node, .step = -1, .left = split->blocks};
    default:
        return (struct hier_cursor){.step = 1, .left = 1};
    }
}

bool hier_cursor_next(const struct hier_split *split, int slice, struct hier_cursor *cursor,
                      struct range *piece)
{
    while (cursor->left > 0) {
        struct range part = hier_slice_range(split, cursor->block, slice);
        int64_t left = part.count - cursor->within;
        if (left > 0) {
            *piece =
                (struct range){part.begin + cursor->within, left < split->longest ? left : split->longest};
            cursor->within += piece->count;
            return true;
        }
        cursor->block = (cursor->block + cursor->step + split->blocks) % split->blocks;
        cursor->within = 0;
        cursor->left--;
    }
    return false;
}

int64_t hier_chunk_count(const struct hier_split *split, int slice, struct hier_cursor cursor)
{
    int64_t pieces = 0;
    for (int i = 0, block = cursor.block; i < cursor.left; i++) {
        int64_t count = hier_slice_range(split, block, slice).count;
        pieces += count / split->longest + (count % split->longest != 0);
        block = (block + cursor.step + split->blocks) % split->blocks;
    }
    return pieces;
}
