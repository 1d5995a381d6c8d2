/* blocks.c: the blocks of a batch, one for each member, and cursors over them. */
#include "backend/sched/blocks.h"

struct blocks blocks_of(const int64_t *counts, int count)
{
    struct blocks blocks = {counts, count, 0};
    for (int i = 0; i < count; i++)
        blocks.elements += counts[i];
    return blocks;
}

int64_t blocks_chunks(const struct blocks *blocks, int first, int end, int64_t longest)
{
    int64_t segments = 0;
    for (int i = first; i < end; i++)
        segments += blocks->counts[i] / longest + (blocks->counts[i] % longest != 0);
    return segments;
}

struct block_cursor block_cursor_begin(const struct blocks *blocks, int block, int step)
{
    struct block_cursor cursor = {.block = block, .step = step};
    for (int i = 0; i < block; i++)
        cursor.start += blocks->counts[i];
    return cursor;
}

static void next_block(const struct blocks *blocks, struct block_cursor *cursor)
{
    int last = blocks->count - 1;
    if (cursor->step > 0) {
        cursor->start = cursor->block == last ? 0 : cursor->start + blocks->counts[cursor->block];
        cursor->block = cursor->block == last ? 0 : cursor->block + 1;
    } else {
        cursor->block = cursor->block == 0 ? last : cursor->block - 1;
        cursor->start =
            (cursor->block == last ? blocks->elements : cursor->start) - blocks->counts[cursor->block];
    }
    cursor->within = 0;
}

struct block_segment block_cursor_next(const struct blocks *blocks, struct block_cursor *cursor,
                                       int64_t longest)
{
    for (int i = 0; i < blocks->count && cursor->within == blocks->counts[cursor->block]; i++)
        next_block(blocks, cursor);
    int64_t left = blocks->counts[cursor->block] - cursor->within;
    struct block_segment segment = {cursor->block, cursor->start + cursor->within,
                                    left < longest ? left : longest};
    cursor->within += segment.count;
    return segment;
}
