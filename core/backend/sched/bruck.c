/* bruck.c: who sends what to whom, and when, in a batch of few bytes. */
#include "backend/sched/bruck.h"

#include <stdlib.h>
#include <string.h>

#include "base/cache_line.h"

static bool is_reduction(enum plane_kind kind)
{
    return kind == PLANE_ALLREDUCE || kind == PLANE_REDUCESCATTER;
}

bool doubling_can(const struct plane_batch *batch)
{
    const struct plane_need *need = &batch->need;
    int64_t room = DOUBLING_BYTES / (int64_t)dtype_bytes(need->dtype);
    if (need->kind == PLANE_ALLTOALL)
        return false;
    if (!is_reduction(need->kind))
        return batch->count <= room;
    return batch->count <= room / need->ranks &&
           batch->count <= DOUBLING_BYTES / (int64_t)dtype_bytes(need->partial);
}

int doubling_steps(int size)
{
    int steps = 0;
    while (steps < DOUBLING_MAX_STEPS && size > INT64_C(1) << steps)
        steps++;
    return steps;
}

/* Between two members there are as many messages either way. */
int doubling_init(struct doubling *doubling, int rank, int size, bool crowded, struct hvd_error *err)
{
    size_t bytes = 2 * (size_t)DOUBLING_BYTES;
    *doubling = (struct doubling){
        .rank = rank, .size = size, .crowded = crowded && size > 2, .step_count = doubling_steps(size)};
    doubling->gathered = aligned_alloc(CACHE_LINE_BYTES, bytes);
    if (doubling->gathered == NULL)
        return error_set_errno(err, "no memory for %zu bytes of small batches", bytes);
    doubling->sum = doubling->gathered + DOUBLING_BYTES;
    return HVD_OK;
}

void doubling_fini(struct doubling *doubling)
{
    free(doubling->gathered);
    doubling->gathered = doubling->sum = NULL;
}

/* ---- Beginning a batch ---------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The member whose block is the [index]th. */
static int member_at(const struct doubling *doubling, int index)
{
    return (doubling->rank - index + doubling->size) % doubling->size;
}

static size_t block_bytes(const struct doubling *doubling, int member)
{
    const struct plane_batch *batch = &doubling->batch;
    int64_t count = batch->need.kind == PLANE_ALLGATHER ? batch->counts[member] : batch->count;
    return (size_t)count * doubling->element_bytes;
}

/* A member that has nothing to give need not have memory for it. */
static void put_own(const struct doubling *doubling)
{
    size_t bytes = block_bytes(doubling, doubling->rank);
    if (bytes > 0)
        memcpy(doubling->gathered, doubling->batch.input, bytes);
}

/* What is sent may go when all that was added to be received before it is there. */
static void add_move(struct doubling *doubling, enum doubling_way way, int step, char *bytes, size_t length)
{
    struct doubling_side *side = &doubling->sides[way];
    int after = doubling->sides[DOUBLING_IN].count;
    side->moves[side->count++] = (struct doubling_move){{step, bytes, length}, after};
}

/* Bytes of blocks [first, end). */
static size_t bytes_between(const struct doubling *doubling, int first, int end)
{
    size_t bytes = 0;
    if (doubling->batch.need.kind != PLANE_ALLGATHER)
        return (size_t)(end - first) * block_bytes(doubling, doubling->rank);
    for (int index = first; index < end; index++)
        bytes += block_bytes(doubling, member_at(doubling, index));
    return bytes;
}

/* Where the first 2^k blocks end in memory, or all of [count], for each step and the one behind the last. */
static void measure(const struct doubling *doubling, int count, size_t ends[DOUBLING_MAX_STEPS + 1])
{
    ends[0] = block_bytes(doubling, doubling->rank);
    for (int step = 0; step < doubling->step_count; step++) {
        int64_t first = least(INT64_C(1) << step, count);
        int64_t end = least(INT64_C(2) << step, count);
        ends[step + 1] = ends[step] + bytes_between(doubling, (int)first, (int)end);
    }
}

/* The output of [root] becomes that of all. Who is [distance] behind it gets it from the one that is nearer
 * to it by the highest power of two in that. */
static void spread(struct doubling *doubling, int root)
{
    int64_t distance = (doubling->rank - root + doubling->size) % doubling->size;
    int step = doubling_steps((int)distance + 1);
    char *output = doubling->batch.output;
    size_t bytes = (size_t)doubling->batch.count * doubling->element_bytes;
    if (distance > 0)
        add_move(doubling, DOUBLING_IN, step - 1, output, bytes);
    for (; step < doubling->step_count && distance + (INT64_C(1) << step) < doubling->size; step++)
        add_move(doubling, DOUBLING_OUT, step, output, bytes);
}

static void start_broadcast(struct doubling *doubling)
{
    const struct plane_batch *batch = &doubling->batch;
    if (doubling->rank == batch->root && batch->input != batch->output)
        memcpy(batch->output, batch->input, (size_t)batch->count * doubling->element_bytes);
    spread(doubling, batch->root);
}

static void start_gathering(struct doubling *doubling)
{
    size_t ends[DOUBLING_MAX_STEPS + 1], lasts[DOUBLING_MAX_STEPS + 1];
    int last = doubling->step_count - 1;
    measure(doubling, doubling->size, ends);
    measure(doubling, doubling->size - (1 << last), lasts);
    for (int step = 0; step <= last; step++) {
        size_t length = step < last ? ends[step] : lasts[step];
        add_move(doubling, DOUBLING_OUT, step, doubling->gathered, length);
        add_move(doubling, DOUBLING_IN, step, doubling->gathered + ends[step], ends[step + 1] - ends[step]);
    }
    doubling->complete = doubling->sides[DOUBLING_IN].count;
    put_own(doubling);
}

/* Each member but the last takes what some before it have gathered, until it is its turn to hand it on. */
static void start_crowded(struct doubling *doubling)
{
    size_t ends[DOUBLING_MAX_STEPS + 1];
    int last = doubling->size - 1;
    int64_t behind = last - doubling->rank;
    measure(doubling, doubling->rank + 1, ends);
    for (int step = 0; step < doubling->step_count; step++) {
        int64_t distance = INT64_C(1) << step;
        if ((behind & distance) != 0) {
            add_move(doubling, DOUBLING_OUT, step, doubling->gathered, ends[step]);
            break;
        }
        if (distance <= doubling->rank)
            add_move(doubling, DOUBLING_IN, step, doubling->gathered + ends[step],
                     ends[step + 1] - ends[step]);
    }
    if (doubling->rank == last)
        doubling->complete = doubling->sides[DOUBLING_IN].count;
    put_own(doubling);
    spread(doubling, last);
}

void doubling_start(struct doubling *doubling, const struct plane_batch *batch)
{
    const struct plane_need *need = &batch->need;
    doubling->batch = *batch;
    doubling->element_bytes = dtype_bytes(need->dtype);
    doubling->reduction = (struct reduction){
        .dtype = need->dtype,
        .partial = need->partial,
        .op = need->op,
        .prescale = batch->prescale,
        .postscale = batch->postscale,
        .ranks = doubling->size,
    };
    for (int way = 0; way < DOUBLING_WAYS; way++)
        doubling->sides[way].count = doubling->sides[way].done = 0;
    doubling->complete = -1;
    if (need->kind == PLANE_BROADCAST)
        start_broadcast(doubling);
    else if (doubling->crowded)
        start_crowded(doubling);
    else
        start_gathering(doubling);
}

/* ---- What has been gathered ------------------------------------------------------------------ */

/* Reduce [count] elements from [offset] on, of all members' inputs. */
static void reduce(const struct doubling *doubling, int64_t offset, int64_t count)
{
    const struct reduction *reduction = &doubling->reduction;
    size_t before = (size_t)offset * doubling->element_bytes;
    size_t block = block_bytes(doubling, doubling->rank);
    char *output = (char *)doubling->batch.output + before;
    char *sum = reduction->partial == reduction->dtype ? output : doubling->sum;
    for (int member = 0; member < doubling->size; member++) {
        size_t index = (size_t)member_at(doubling, member);
        const char *input = doubling->gathered + index * block + before;
        if (member == 0)
            reduce_begin(reduction, sum, input, count);
        else
            reduce_fold(reduction, sum, sum, input, count);
    }
    reduce_finish(reduction, output, sum, count);
}

static void reduce_share(const struct doubling *doubling)
{
    const int64_t *counts = doubling->batch.counts;
    int64_t offset = 0;
    for (int member = 0; member < doubling->rank; member++)
        offset += counts[member];
    reduce(doubling, offset, counts[doubling->rank]);
}

/* What was gathered ends with the block of the member behind this one; before it lies that of the next one,
 * and so on round the ring. */
static void put_in_order(const struct doubling *doubling)
{
    const char *block = doubling->gathered + bytes_between(doubling, 0, doubling->size);
    char *place = doubling->batch.output;
    for (int member = 0; member <= doubling->rank; member++)
        place += block_bytes(doubling, member);
    for (int i = 1; i <= doubling->size; i++) {
        int member = (doubling->rank + i) % doubling->size;
        size_t bytes = block_bytes(doubling, member);
        place = member == 0 ? doubling->batch.output : place;
        block -= bytes;
        memcpy(place, block, bytes);
        place += bytes;
    }
}

/* The output, from all blocks: its own part of it, or all where others have theirs from this member. */
static void complete(const struct doubling *doubling)
{
    if (doubling->batch.need.kind == PLANE_ALLGATHER)
        put_in_order(doubling);
    else if (doubling->batch.need.kind == PLANE_REDUCESCATTER && !doubling->crowded)
        reduce_share(doubling);
    else
        reduce(doubling, 0, doubling->batch.count);
}

/* ---- Its steps ------------------------------------------------------------------------------ */

bool doubling_piece(const struct doubling *doubling, enum doubling_way way, struct doubling_piece *piece)
{
    const struct doubling_side *side = &doubling->sides[way];
    const struct doubling_move *move = &side->moves[side->done];
    if (side->done == side->count || move->after > doubling->sides[DOUBLING_IN].done)
        return false;
    *piece = move->piece;
    return true;
}

void doubling_through(struct doubling *doubling, enum doubling_way way)
{
    int done = ++doubling->sides[way].done;
    if (way == DOUBLING_IN && done == doubling->complete)
        complete(doubling);
}

bool doubling_left(const struct doubling *doubling)
{
    const struct doubling_side *sides = doubling->sides;
    return sides[DOUBLING_OUT].done < sides[DOUBLING_OUT].count ||
           sides[DOUBLING_IN].done < sides[DOUBLING_IN].count;
}
