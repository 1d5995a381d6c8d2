/* blocks.h: the parts of a batch that belong to its members one by one, and walks over them piece by piece.
 * Pure. */
#ifndef BACKEND_SCHED_BLOCKS_H
#define BACKEND_SCHED_BLOCKS_H

#include <stdint.h>

/* Parts that lie one behind the other. */
struct blocks {
    const int64_t *counts; /* elements of each, >= 0; borrowed */
    int count;
    int64_t elements; /* of all together */
};

/* A piece of one block. */
struct block_segment {
    int block;
    int64_t offset; /* of its first element, among those of all blocks */
    int64_t count;  /* of elements */
};

/* Where a cursor has come to: [within] elements of [block] are behind it. */
struct block_cursor {
    int block, step; /* from block to block: 1 upwards, -1 downwards, round the end */
    int64_t start;   /* offset of the block */
    int64_t within;
};

struct blocks blocks_of(const int64_t *counts, int count);

/* Pieces that the blocks [first, end) are cut into: none is longer than [longest] elements, none is empty. */
int64_t blocks_chunks(const struct blocks *blocks, int first, int end, int64_t longest);

/* Begin a cursor at a block. */
struct block_cursor block_cursor_begin(const struct blocks *blocks, int block, int step);

/* Walk over the next piece; empty blocks are passed by. Where all blocks are empty so is the piece. */
struct block_segment block_cursor_next(const struct blocks *blocks, struct block_cursor *cursor,
                                       int64_t longest);

#endif
