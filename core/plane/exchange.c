/* exchange.c: which chunk of an alltoall goes to whom, and when. */
#include "plane/exchange.h"

#include <string.h>

bool exchange_can(const struct plane_need *need)
{
    return need->kind == PLANE_ALLTOALL && need->ranks >= 2 && dtype_bytes(need->dtype) != 0;
}

void exchange_init(struct exchange *exchange, int rank, int size, int64_t chunk_bytes)
{
    *exchange = (struct exchange){.rank = rank, .size = size, .chunk_bytes = chunk_bytes};
}

/* Give idle lanes pairs that wait. */
static void fill_lanes(struct exchange_side *side)
{
    for (int i = 0; i < EXCHANGE_LANES && side->waiting > 0; i++) {
        if (side->lanes[i].busy)
            continue;
        struct span span = walk_next(&side->blocks, &side->walk, INT64_MAX);
        side->lanes[i] = (struct exchange_lane){true, span.block, 0, span.offset, span.count};
        side->waiting--;
        side->busy++;
    }
}

static void start_side(struct exchange *exchange, struct exchange_side *side, const int64_t *counts, int step)
{
    int first = (exchange->rank + exchange->size + step) % exchange->size;
    *side = (struct exchange_side){.blocks = blocks_of(counts, exchange->size)};
    side->walk = walk_begin(&side->blocks, first, step);
    for (int member = 0; member < exchange->size; member++)
        side->waiting += member != exchange->rank && counts[member] > 0;
    fill_lanes(side);
}

void exchange_start(struct exchange *exchange, const struct plane_batch *batch)
{
    int rank = exchange->rank;
    exchange->batch = *batch;
    exchange->element_bytes = dtype_bytes(batch->need.dtype);
    exchange->chunk_count = exchange->chunk_bytes / (int64_t)exchange->element_bytes;
    struct exchange_side *out = &exchange->sides[EXCHANGE_OUT];
    struct exchange_side *in = &exchange->sides[EXCHANGE_IN];
    start_side(exchange, out, batch->counts, 1);
    start_side(exchange, in, batch->receive_counts, -1);
    exchange->own_bytes = batch->counts[rank] * (int64_t)exchange->element_bytes;
    if (exchange->own_bytes == 0)
        return;
    int64_t from = walk_begin(&out->blocks, rank, 1).start;
    int64_t to = walk_begin(&in->blocks, rank, 1).start;
    exchange->own_input = (const char *)batch->input + from * (int64_t)exchange->element_bytes;
    exchange->own_output = (char *)batch->output + to * (int64_t)exchange->element_bytes;
}

static int64_t piece_count(const struct exchange *exchange, const struct exchange_lane *lane)
{
    return lane->left < exchange->chunk_count ? lane->left : exchange->chunk_count;
}

bool exchange_piece(const struct exchange *exchange, enum exchange_way way, int lane,
                    struct exchange_piece *piece)
{
    const struct exchange_lane *at = &exchange->sides[way].lanes[lane];
    if (!at->busy)
        return false;
    uintptr_t memory = (uintptr_t)(way == EXCHANGE_OUT ? exchange->batch.input : exchange->batch.output);
    *piece = (struct exchange_piece){
        .member = at->member,
        .chunk = at->chunk,
        .bytes = (char *)memory + at->offset * (int64_t)exchange->element_bytes,
        .length = (size_t)piece_count(exchange, at) * exchange->element_bytes,
    };
    return true;
}

bool exchange_is_last(const struct exchange *exchange, enum exchange_way way, int lane)
{
    return exchange->sides[way].lanes[lane].left <= exchange->chunk_count;
}

void exchange_through(struct exchange *exchange, enum exchange_way way, int lane)
{
    struct exchange_side *side = &exchange->sides[way];
    struct exchange_lane *at = &side->lanes[lane];
    int64_t count = piece_count(exchange, at);
    at->chunk++;
    at->offset += count;
    at->left -= count;
    if (at->left > 0)
        return;
    at->busy = false;
    side->busy--;
    fill_lanes(side);
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
