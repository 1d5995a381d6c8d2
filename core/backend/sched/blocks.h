/* blocks.h: the blocks of a batch, one for each member, and cursors over them in segments. Pure. */
#ifndef BACKEND_SCHED_BLOCKS_H
#define BACKEND_SCHED_BLOCKS_H

#include <stdint.h>

/* Contiguous blocks. */
struct blocks {
    const int64_t *counts; /* elements of each, >= 0; must outlive this */
    int count;
    int64_t elements; /* of all blocks */
};

/* A part of one block. */
struct block_segment {
    int block;
    int64_t offset; /* of its first element, from the beginning of all blocks */
    int64_t count;  /* of elements */
};

/* A position: [within] elements of [block] are before it. */
struct block_cursor {
    int block, step; /* to the next block: 1 upwards or -1 downwards, wrapping round */
    int64_t start;   /* offset of the block */
    int64_t within;
};

struct blocks blocks_of(const int64_t *counts, int count);

/* How many segments of at most [longest] elements the blocks [first, end) make. None is empty, none spans two
 * blocks. */
int64_t blocks_chunks(const struct blocks *blocks, int first, int end, int64_t longest);

/* A cursor at the beginning of [block]. */
struct block_cursor block_cursor_begin(const struct blocks *blocks, int block, int step);

/* The next segment; the cursor moves behind it. Empty blocks are skipped; if all are empty so is the segment.
 */
struct block_segment block_cursor_next(const struct blocks *blocks, struct block_cursor *cursor,
                                       int64_t longest);

#endif
