/* blocks.c: the parts of a batch that belong to its members one by one, and walks over them. */
#include "backend/sched/blocks.h"

struct blocks blocks_of(const int64_t *counts, int count)
{
    struct blocks blocks = {counts, count, 0};
    for (int i = 0; i < count; i++)
        blocks.elements += counts[i];
    return blocks;
}

int64_t blocks_pieces(const struct blocks *blocks, int first, int end, int64_t longest)
{
    int64_t pieces = 0;
    for (int i = first; i < end; i++)
        pieces += blocks->counts[i] / longest + (blocks->counts[i] % longest != 0);
    return pieces;
}

struct walk walk_begin(const struct blocks *blocks, int block, int step)
{
    struct walk walk = {.block = block, .step = step};
    for (int i = 0; i < block; i++)
        walk.start += blocks->counts[i];
    return walk;
}

static void next_block(const struct blocks *blocks, struct walk *walk)
{
    int last = blocks->count - 1;
    if (walk->step > 0) {
        walk->start = walk->block == last ? 0 : walk->start + blocks->counts[walk->block];
        walk->block = walk->block == last ? 0 : walk->block + 1;
    } else {
        walk->block = walk->block == 0 ? last : walk->block - 1;
        walk->start = (walk->block == last ? blocks->elements : walk->start) - blocks->counts[walk->block];
    }
    walk->within = 0;
}

struct span walk_next(const struct blocks *blocks, struct walk *walk, int64_t longest)
{
    for (int i = 0; i < blocks->count && walk->within == blocks->counts[walk->block]; i++)
        next_block(blocks, walk);
    int64_t left = blocks->counts[walk->block] - walk->within;
    struct span span = {walk->block, walk->start + walk->within, left < longest ? left : longest};
    walk->within += span.count;
    return span;
}
