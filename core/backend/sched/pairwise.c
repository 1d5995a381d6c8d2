/* pairwise.c: which chunk of an alltoall goes to whom, and when. */
#include "backend/sched/pairwise.h"

#include <string.h>

bool exchange_can(const struct plane_need *need)
{
    return need->kind == PLANE_ALLTOALL && need->ranks >= 2 && dtype_bytes(need->dtype) != 0;
}

void exchange_init(struct exchange *exchange, int rank, int size, int64_t chunk_bytes)
{
    *exchange = (struct exchange){.rank = rank, .size = size, .chunk_bytes = chunk_bytes};
}

static int64_t chunks_of(int64_t count, int64_t longest)
{
    return count / longest + (count % longest != 0);
}

/* A lane for a pair: one run of it or two. */
static struct exchange_lane lane_for(struct exchange_side *side, const struct span *span, int64_t longest)
{
    int64_t begin = side->begins == NULL ? 0 : side->begins[span->block] % span->count;
    struct exchange_lane lane = {.busy = true,
                                 .member = span->block,
                                 .number = side->chunks,
                                 .offset = span->offset + begin,
                                 .left = span->count - begin,
                                 .rest = begin,
                                 .start = span->offset};
    side->chunks += chunks_of(lane.left, longest) + chunks_of(lane.rest, longest);
    return lane;
}

/* Give idle lanes pairs that wait. */
static void fill_lanes(struct exchange_side *side, int64_t longest)
{
    for (int i = 0; i < EXCHANGE_LANES && side->waiting > 0; i++) {
        if (side->lanes[i].busy)
            continue;
        struct span span = walk_next(&side->blocks, &side->walk, INT64_MAX);
        side->lanes[i] = lane_for(side, &span, longest);
        side->waiting--;
        side->busy++;
    }
}

static void start_side(struct exchange *exchange, enum exchange_way way)
{
    const struct plane_batch *batch = &exchange->batch;
    const struct plane_feed *feed = batch->feed;
    struct exchange_side *side = &exchange->sides[way];
    bool out = way == EXCHANGE_OUT;
    int step = out ? 1 : -1;
    int first = (exchange->rank + exchange->size + step) % exchange->size;
    const int64_t *counts = out ? batch->counts : batch->receive_counts;
    *side = (struct exchange_side){.blocks = blocks_of(counts, exchange->size)};
    if (feed != NULL)
        side->begins = out ? feed->begins : feed->receive_begins;
    side->walk = walk_begin(&side->blocks, first, step);
    for (int member = 0; member < exchange->size; member++)
        side->waiting += member != exchange->rank && counts[member] > 0;
    fill_lanes(side, exchange->chunk_count);
}

void exchange_start(struct exchange *exchange, const struct plane_batch *batch)
{
    int rank = exchange->rank;
    exchange->batch = *batch;
    exchange->element_bytes = dtype_bytes(batch->need.dtype);
    exchange->chunk_count = exchange->chunk_bytes / (int64_t)exchange->element_bytes;
    if (batch->feed != NULL)
        exchange->chunk_count = batch->feed->longest;
    for (int way = 0; way < EXCHANGE_WAYS; way++)
        start_side(exchange, (enum exchange_way)way);
    exchange->own_bytes = batch->counts[rank] * (int64_t)exchange->element_bytes;
    if (exchange->own_bytes == 0)
        return;
    int64_t from = walk_begin(&exchange->sides[EXCHANGE_OUT].blocks, rank, 1).start;
    int64_t to = walk_begin(&exchange->sides[EXCHANGE_IN].blocks, rank, 1).start;
    exchange->own_input = (const char *)batch->input + from * (int64_t)exchange->element_bytes;
    exchange->own_output = (char *)batch->output + to * (int64_t)exchange->element_bytes;
}

static int64_t piece_count(const struct exchange *exchange, const struct exchange_lane *lane)
{
    return lane->left < exchange->chunk_count ? lane->left : exchange->chunk_count;
}

/* Where a chunk lies; NULL where it is not there yet. */
static char *bytes_of(const struct exchange *exchange, enum exchange_way way, const struct exchange_lane *at)
{
    const struct plane_batch *batch = &exchange->batch;
    if (way == EXCHANGE_OUT && batch->feed != NULL)
        return (char *)(uintptr_t)batch->feed->chunk(batch->feed->arg, at->number + at->chunk);
    uintptr_t memory = (uintptr_t)(way == EXCHANGE_OUT ? batch->input : batch->output);
    return (char *)memory + at->offset * (int64_t)exchange->element_bytes;
}

bool exchange_piece(const struct exchange *exchange, enum exchange_way way, int lane,
                    struct exchange_piece *piece)
{
    const struct exchange_lane *at = &exchange->sides[way].lanes[lane];
    if (!at->busy)
        return false;
    *piece = (struct exchange_piece){
        .member = at->member,
        .chunk = at->chunk,
        .bytes = bytes_of(exchange, way, at),
        .length = (size_t)piece_count(exchange, at) * exchange->element_bytes,
    };
    return piece->bytes != NULL;
}

bool exchange_is_last(const struct exchange *exchange, enum exchange_way way, int lane)
{
    const struct exchange_lane *at = &exchange->sides[way].lanes[lane];
    return at->left <= exchange->chunk_count && at->rest == 0;
}

void exchange_through(struct exchange *exchange, enum exchange_way way, int lane)
{
    struct exchange_side *side = &exchange->sides[way];
    struct exchange_lane *at = &side->lanes[lane];
    const struct plane_feed *feed = exchange->batch.feed;
    int64_t count = piece_count(exchange, at);
    if (way == EXCHANGE_OUT && feed != NULL)
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
    fill_lanes(side, exchange->chunk_count);
}

bool exchange_copy(struct exchange *exchange)
{
    int64_t bytes = exchange->own_bytes < exchange->chunk_bytes ? exchange->own_bytes : exchange->chunk_bytes;
    if (bytes == 0)
        return false;
    memcpy(exchange->own_output, exchange->own_input, (size_t)bytes);
    exchange->own_input += bytes;
    exchange->own_output += bytes;
    exchange->own_bytes -= bytes;
    return true;
}

bool exchange_left(const struct exchange *exchange)
{
    return exchange->own_bytes > 0 || exchange->sides[EXCHANGE_OUT].busy > 0 ||
           exchange->sides[EXCHANGE_IN].busy > 0;
}
