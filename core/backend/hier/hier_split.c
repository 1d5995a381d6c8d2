/* hier_split.c: how a team lies on nodes, and how its batches are cut for them. */
#include "backend/hier/hier_split.h"

#include <stdlib.h>

#define GRAIN 64 /* elements: slices begin on a cache line */

/* ---- Nodes ---------------------------------------------------------------------------------- */

/* The member behind those of the node that [first] is on. */
static int end_of_node(const int *node_of_rank, const struct plane_team *team, int first)
{
    int end = first + 1;
    while (end < team->size && node_of_rank[team->ranks[end]] == node_of_rank[team->ranks[first]])
        end++;
    return end;
}

/* Is a member before [first] on its node? [highest] is the highest of their nodes. */
static bool is_back(const int *node_of_rank, const struct plane_team *team, int first, int highest)
{
    int node = node_of_rank[team->ranks[first]];
    bool back = false;
    for (int i = 0; i < first && node <= highest && !back; i++)
        back = node_of_rank[team->ranks[i]] == node;
    return back;
}

bool hier_spread(const int *node_of_rank, const struct plane_team *team, const char **whyp)
{
    int count = 0;
    int highest = -1;
    bool shared = false;
    for (int first = 0, end = 0; first < team->size; first = end) {
        int node = node_of_rank[team->ranks[first]];
        if (is_back(node_of_rank, team, first, highest)) {
            *whyp = "ranks of other nodes are between those of a node";
            return false;
        }
        end = end_of_node(node_of_rank, team, first);
        highest = node > highest ? node : highest;
        shared = shared || end - first > 1;
        count++;
    }
    *whyp = count < 2 ? "the ranks are on one node" : "each rank is on a node of its own";
    return count > 1 && shared;
}

int hier_each(const int *node_of_rank, const struct plane_team *team)
{
    const char *why = NULL;
    int each = end_of_node(node_of_rank, team, 0);
    bool even = hier_spread(node_of_rank, team, &why);
    for (int first = 0; first < team->size && even; first += each)
        even = end_of_node(node_of_rank, team, first) == first + each;
    return even ? each : 0;
}

int hier_nodes_init(struct hier_nodes *nodes, const int *node_of_rank, const struct plane_team *team)
{
    *nodes = (struct hier_nodes){.slices = team->size};
    for (int first = 0; first < team->size; first = end_of_node(node_of_rank, team, first))
        nodes->count++;
    nodes->firsts = calloc((size_t)nodes->count + 1, sizeof(*nodes->firsts));
    if (nodes->firsts == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int node = 0; node < nodes->count; node++) {
        int first = nodes->firsts[node];
        int end = end_of_node(node_of_rank, team, first);
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

struct run run_overlap(struct run a, struct run b)
{
    int64_t a_end = a.begin + a.count;
    int64_t b_end = b.begin + b.count;
    int64_t begin = a.begin > b.begin ? a.begin : b.begin;
    int64_t end = a_end < b_end ? a_end : b_end;
    return (struct run){begin, end > begin ? end - begin : 0};
}

/* Where each node's block begins, and the last one ends. */
static void add_up(const struct hier_nodes *nodes, const int64_t *counts, int64_t *begins)
{
    int64_t begin = 0;
    for (int node = 0; node < nodes->count; node++) {
        begins[node] = begin;
        for (int i = nodes->firsts[node]; i < nodes->firsts[node + 1]; i++)
            begin += counts[i];
    }
    begins[nodes->count] = begin;
}

void hier_cut_batch(struct hier_cut *cut, const struct hier_nodes *nodes, const struct plane_batch *batch,
                    int64_t longest, int64_t *begins)
{
    enum plane_kind kind = batch->need.kind;
    bool by_node = kind == PLANE_REDUCESCATTER || kind == PLANE_ALLGATHER;
    *cut = (struct hier_cut){.nodes = nodes,
                             .kind = kind,
                             .longest = longest,
                             .blocks = by_node ? nodes->count : 1,
                             .begins = begins};
    if (kind == PLANE_BROADCAST)
        cut->root_node = hier_node_of(nodes, batch->root);
    if (by_node) {
        add_up(nodes, batch->counts, begins);
    } else {
        begins[0] = 0;
        begins[1] = batch->count;
    }
}

/* Elements of a block of [count] before [slice]. What is small is slice 0's, and no other has more. */
static int64_t before_slice(int64_t count, int slice, int slices)
{
    int64_t grains = count / GRAIN + (count % GRAIN != 0);
    int64_t before = (grains * slice + slices - 1) / slices * GRAIN;
    return before < count ? before : count;
}

struct run hier_part(const struct hier_cut *cut, int block, int slice)
{
    int64_t count = cut->begins[block + 1] - cut->begins[block];
    int64_t begin = before_slice(count, slice, cut->nodes->slices);
    int64_t end = before_slice(count, slice + 1, cut->nodes->slices);
    return (struct run){cut->begins[block] + begin, end - begin};
}

/* ---- Ways ----------------------------------------------------------------------------------- */

struct hier_walk hier_given(const struct hier_cut *cut)
{
    int node = cut->nodes->node;
    switch (cut->kind) {
    case PLANE_REDUCESCATTER:
        return (struct hier_walk){.step = 1, .left = cut->blocks};
    case PLANE_ALLGATHER:
        return (struct hier_walk){.block = node, .step = 1, .left = 1};
    case PLANE_BROADCAST:
        return (struct hier_walk){.step = 1, .left = node == cut->root_node ? 1 : 0};
    default:
        return (struct hier_walk){.step = 1, .left = 1};
    }
}

struct hier_walk hier_gotten(const struct hier_cut *cut)
{
    int node = cut->nodes->node;
    switch (cut->kind) {
    case PLANE_REDUCESCATTER:
        return (struct hier_walk){.block = node, .step = 1, .left = 1};
    case PLANE_ALLGATHER:
        return (struct hier_walk){.block = node, .step = -1, .left = cut->blocks};
    default:
        return (struct hier_walk){.step = 1, .left = 1};
    }
}

bool hier_walk_on(const struct hier_cut *cut, int slice, struct hier_walk *walk, struct run *piece)
{
    while (walk->left > 0) {
        struct run part = hier_part(cut, walk->block, slice);
        int64_t left = part.count - walk->within;
        if (left > 0) {
            *piece = (struct run){part.begin + walk->within, left < cut->longest ? left : cut->longest};
            walk->within += piece->count;
            return true;
        }
        walk->block = (walk->block + walk->step + cut->blocks) % cut->blocks;
        walk->within = 0;
        walk->left--;
    }
    return false;
}

int64_t hier_pieces(const struct hier_cut *cut, int slice, struct hier_walk walk)
{
    int64_t pieces = 0;
    for (int i = 0, block = walk.block; i < walk.left; i++) {
        int64_t count = hier_part(cut, block, slice).count;
        pieces += count / cut->longest + (count % cut->longest != 0);
        block = (block + walk.step + cut->blocks) % cut->blocks;
    }
    return pieces;
}
