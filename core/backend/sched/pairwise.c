/* pairwise.c: the pairwise exchange: which chunk of an alltoall goes where, and when. */
#include "backend/sched/pairwise.h"

#include <string.h>

#include "base/dtype.h"

bool pairwise_supports(const struct backend_need *need)
{
    return need->kind == COLL_ALLTOALL && need->ranks >= 2 && dtype_bytes(need->dtype) != 0;
}

void pairwise_init(struct pairwise *pairwise, int rank, int size, int64_t chunk_bytes)
{
    *pairwise = (struct pairwise){.rank = rank, .size = size, .chunk_bytes = chunk_bytes};
}

static int64_t chunks_of(int64_t count, int64_t longest)
{
    return count / longest + (count % longest != 0);
}

/* A lane for the next pair, which has one run or two. */
static struct pairwise_lane lane_for(struct pairwise_side *side, const struct block_segment *segment,
                                     int64_t longest)
{
    int64_t begin = side->begins == NULL ? 0 : side->begins[segment->block] % segment->count;
    struct pairwise_lane lane = {.busy = true,
                                 .member = segment->block,
                                 .number = side->chunks,
                                 .offset = segment->offset + begin,
                                 .left = segment->count - begin,
                                 .rest = begin,
                                 .start = segment->offset};
    side->chunks += chunks_of(lane.left, longest) + chunks_of(lane.rest, longest);
    return lane;
}

/* Give waiting pairs to idle lanes. */
static void fill_lanes(struct pairwise_side *side, int64_t longest)
{
    for (int i = 0; i < PAIRWISE_LANES && side->waiting > 0; i++) {
        if (side->lanes[i].busy)
            continue;
        struct block_segment segment = block_cursor_next(&side->blocks, &side->cursor, INT64_MAX);
        side->lanes[i] = lane_for(side, &segment, longest);
        side->waiting--;
        side->busy++;
    }
}

static void start_side(struct pairwise *pairwise, enum pairwise_direction direction)
{
    const struct backend_batch *batch = &pairwise->batch;
    const struct backend_feed *feed = batch->feed;
    struct pairwise_side *side = &pairwise->sides[direction];
    bool out = direction == PAIRWISE_SEND;
    int step = out ? 1 : -1;
    int first = (pairwise->rank + pairwise->size + step) % pairwise->size;
    const int64_t *counts = out ? batch->counts : batch->receive_counts;
    *side = (struct pairwise_side){.blocks = blocks_of(counts, pairwise->size)};
    if (feed != NULL)
        side->begins = out ? feed->begins : feed->receive_begins;
    side->cursor = block_cursor_begin(&side->blocks, first, step);
    for (int member = 0; member < pairwise->size; member++)
        side->waiting += member != pairwise->rank && counts[member] > 0;
    fill_lanes(side, pairwise->chunk_count);
}

void pairwise_start(struct pairwise *pairwise, const struct backend_batch *batch)
{
    int rank = pairwise->rank;
    pairwise->batch = *batch;
    pairwise->element_bytes = dtype_bytes(batch->need.dtype);
    pairwise->chunk_count = pairwise->chunk_bytes / (int64_t)pairwise->element_bytes;
    if (batch->feed != NULL)
        pairwise->chunk_count = batch->feed->longest;
    for (int direction = 0; direction < PAIRWISE_DIRECTIONS; direction++)
        start_side(pairwise, (enum pairwise_direction)direction);
    pairwise->own_bytes = batch->on_gpu ? 0 : batch->counts[rank] * (int64_t)pairwise->element_bytes;
    if (pairwise->own_bytes == 0)
        return;
    int64_t from = block_cursor_begin(&pairwise->sides[PAIRWISE_SEND].blocks, rank, 1).start;
    int64_t to = block_cursor_begin(&pairwise->sides[PAIRWISE_RECEIVE].blocks, rank, 1).start;
    pairwise->own_input = (const char *)batch->input + from * (int64_t)pairwise->element_bytes;
    pairwise->own_output = (char *)batch->output + to * (int64_t)pairwise->element_bytes;
}

static int64_t chunk_count_of(const struct pairwise *pairwise, const struct pairwise_lane *lane)
{
    return lane->left < pairwise->chunk_count ? lane->left : pairwise->chunk_count;
}

/* Where the current chunk lies; NULL if the feed does not have it yet. */
static char *bytes_of(const struct pairwise *pairwise, enum pairwise_direction direction,
                      const struct pairwise_lane *at)
{
    const struct backend_batch *batch = &pairwise->batch;
    if (direction == PAIRWISE_SEND && batch->feed != NULL)
        return (char *)(uintptr_t)batch->feed->chunk(batch->feed->arg, at->number + at->chunk);
    uintptr_t memory = (uintptr_t)(direction == PAIRWISE_SEND ? batch->input : batch->output);
    return (char *)memory + at->offset * (int64_t)pairwise->element_bytes;
}

bool pairwise_next(const struct pairwise *pairwise, enum pairwise_direction direction, int lane,
                   struct pairwise_chunk *chunk)
{
    const struct pairwise_lane *at = &pairwise->sides[direction].lanes[lane];
    if (!at->busy)
        return false;
    *chunk = (struct pairwise_chunk){
        .member = at->member,
        .chunk = at->chunk,
        .bytes = bytes_of(pairwise, direction, at),
        .length = (size_t)chunk_count_of(pairwise, at) * pairwise->element_bytes,
    };
    return chunk->bytes != NULL;
}

bool pairwise_is_last(const struct pairwise *pairwise, enum pairwise_direction direction, int lane)
{
    const struct pairwise_lane *at = &pairwise->sides[direction].lanes[lane];
    return at->left <= pairwise->chunk_count && at->rest == 0;
}

void pairwise_chunk_done(struct pairwise *pairwise, enum pairwise_direction direction, int lane)
{
    struct pairwise_side *side = &pairwise->sides[direction];
    struct pairwise_lane *at = &side->lanes[lane];
    const struct backend_feed *feed = pairwise->batch.feed;
    int64_t count = chunk_count_of(pairwise, at);
    if (direction == PAIRWISE_SEND && feed != NULL)
        feed->sent(feed->arg, at->number + at->chunk);
    at->chunk++;
    at->offset += count;
    at->left -= count;
    if (at->left == 0) {
        at->offset = at->start;
        at->left = at->rest;
        at->rest = 0;
    }
    if (at->left > 0)
        return;
    at->busy = false;
    side->busy--;
    fill_lanes(side, pairwise->chunk_count);
}

bool pairwise_copy_own(struct pairwise *pairwise)
{
    int64_t bytes = pairwise->own_bytes < pairwise->chunk_bytes ? pairwise->own_bytes : pairwise->chunk_bytes;
    if (bytes == 0)
        return false;
    memcpy(pairwise->own_output, pairwise->own_input, (size_t)bytes);
    pairwise->own_input += bytes;
    pairwise->own_output += bytes;
    pairwise->own_bytes -= bytes;
    return true;
}

bool pairwise_left(const struct pairwise *pairwise)
{
    return pairwise->own_bytes > 0 || pairwise->sides[PAIRWISE_SEND].busy > 0 ||
           pairwise->sides[PAIRWISE_RECEIVE].busy > 0;
}
