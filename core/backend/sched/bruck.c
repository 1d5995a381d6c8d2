/* bruck.c: which message goes where, and when, in a small batch. */
#include "backend/sched/bruck.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/dtype.h"

bool bruck_supports(const struct backend_batch *batch)
{
    const struct backend_need *need = &batch->need;
    int64_t room = BRUCK_BYTES / (int64_t)dtype_bytes(need->dtype);
    if (need->kind == COLL_ALLTOALL)
        return false;
    if (!coll_reduces(need->kind))
        return batch->count <= room;
    return batch->count <= room / need->ranks &&
           batch->count <= BRUCK_BYTES / (int64_t)dtype_bytes(need->partial);
}

int bruck_step_count(int size)
{
    int steps = 0;
    while (steps < BRUCK_MAX_STEPS && size > INT64_C(1) << steps)
        steps++;
    return steps;
}

/* With two members a gather and a broadcast would save no message. */
int bruck_init(struct bruck *bruck, int rank, int size, bool shares_nodes, struct hvd_error *err)
{
    size_t bytes = 2 * (size_t)BRUCK_BYTES;
    *bruck = (struct bruck){.rank = rank,
                            .size = size,
                            .shares_nodes = shares_nodes && size > 2,
                            .step_count = bruck_step_count(size)};
    bruck->gathered = aligned_alloc(CACHE_LINE_BYTES, bytes);
    if (bruck->gathered == NULL)
        return error_set_errno(err, "no memory for %zu bytes of small batches", bytes);
    bruck->sum = bruck->gathered + BRUCK_BYTES;
    return HVD_OK;
}

void bruck_fini(struct bruck *bruck)
{
    free(bruck->gathered);
    bruck->gathered = bruck->sum = NULL;
}

/* ---- Beginning a batch ---------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The member whose block is at [index] of the gathered blocks. */
static int member_at(const struct bruck *bruck, int index)
{
    return (bruck->rank - index + bruck->size) % bruck->size;
}

static size_t block_bytes(const struct bruck *bruck, int member)
{
    const struct backend_batch *batch = &bruck->batch;
    int64_t count = batch->need.kind == COLL_ALLGATHER ? batch->counts[member] : batch->count;
    return (size_t)count * bruck->element_bytes;
}

/* A member with an empty block need not have memory for it. */
static void copy_own_block(const struct bruck *bruck)
{
    size_t bytes = block_bytes(bruck, bruck->rank);
    if (bytes > 0)
        memcpy(bruck->gathered, bruck->batch.input, bytes);
}

/* A message may be sent once all receives that were added before it are complete. */
static void add_transfer(struct bruck *bruck, enum bruck_direction direction, int step, char *bytes,
                         size_t length)
{
    struct bruck_transfers *side = &bruck->sides[direction];
    int after = bruck->sides[BRUCK_RECEIVE].count;
    side->transfers[side->count++] = (struct bruck_transfer){{step, bytes, length}, after};
}

/* Bytes of blocks [first, end). */
static size_t bytes_between(const struct bruck *bruck, int first, int end)
{
    size_t bytes = 0;
    if (bruck->batch.need.kind != COLL_ALLGATHER)
        return (size_t)(end - first) * block_bytes(bruck, bruck->rank);
    for (int index = first; index < end; index++)
        bytes += block_bytes(bruck, member_at(bruck, index));
    return bytes;
}

/* Where the first 2^k blocks, or the first [count] if those are fewer, end in memory: for each step k and the
 * one after the last. */
static void block_ends(const struct bruck *bruck, int count, size_t ends[BRUCK_MAX_STEPS + 1])
{
    ends[0] = block_bytes(bruck, bruck->rank);
    for (int step = 0; step < bruck->step_count; step++) {
        int64_t first = least(INT64_C(1) << step, count);
        int64_t end = least(INT64_C(2) << step, count);
        ends[step + 1] = ends[step] + bytes_between(bruck, (int)first, (int)end);
    }
}

/* The output of [root] becomes that of all members, by a binomial tree: the member at [distance] behind it
 * receives it from the one that is nearer by the highest power of two in [distance]. */
static void broadcast_from(struct bruck *bruck, int root)
{
    int64_t distance = (bruck->rank - root + bruck->size) % bruck->size;
    int step = bruck_step_count((int)distance + 1);
    char *output = bruck->batch.output;
    size_t bytes = (size_t)bruck->batch.count * bruck->element_bytes;
    if (distance > 0)
        add_transfer(bruck, BRUCK_RECEIVE, step - 1, output, bytes);
    for (; step < bruck->step_count && distance + (INT64_C(1) << step) < bruck->size; step++)
        add_transfer(bruck, BRUCK_SEND, step, output, bytes);
}

static void start_broadcast(struct bruck *bruck)
{
    const struct backend_batch *batch = &bruck->batch;
    if (bruck->rank == batch->root && batch->input != batch->output)
        memcpy(batch->output, batch->input, (size_t)batch->count * bruck->element_bytes);
    broadcast_from(bruck, batch->root);
}

static void start_allgather(struct bruck *bruck)
{
    size_t ends[BRUCK_MAX_STEPS + 1], lasts[BRUCK_MAX_STEPS + 1];
    int last = bruck->step_count - 1;
    block_ends(bruck, bruck->size, ends);
    block_ends(bruck, bruck->size - (1 << last), lasts);
    for (int step = 0; step <= last; step++) {
        size_t length = step < last ? ends[step] : lasts[step];
        add_transfer(bruck, BRUCK_SEND, step, bruck->gathered, length);
        add_transfer(bruck, BRUCK_RECEIVE, step, bruck->gathered + ends[step], ends[step + 1] - ends[step]);
    }
    bruck->complete = bruck->sides[BRUCK_RECEIVE].count;
    copy_own_block(bruck);
}

/* A binomial tree towards the last member: each other member receives what some before it have gathered,
 * until it sends all that on. */
static void start_gather_broadcast(struct bruck *bruck)
{
    size_t ends[BRUCK_MAX_STEPS + 1];
    int last = bruck->size - 1;
    int64_t behind = last - bruck->rank;
    block_ends(bruck, bruck->rank + 1, ends);
    for (int step = 0; step < bruck->step_count; step++) {
        int64_t distance = INT64_C(1) << step;
        if ((behind & distance) != 0) {
            add_transfer(bruck, BRUCK_SEND, step, bruck->gathered, ends[step]);
            break;
        }
        if (distance <= bruck->rank)
            add_transfer(bruck, BRUCK_RECEIVE, step, bruck->gathered + ends[step],
                         ends[step + 1] - ends[step]);
    }
    if (bruck->rank == last)
        bruck->complete = bruck->sides[BRUCK_RECEIVE].count;
    copy_own_block(bruck);
    broadcast_from(bruck, last);
}

void bruck_start(struct bruck *bruck, const struct backend_batch *batch)
{
    const struct backend_need *need = &batch->need;
    bruck->batch = *batch;
    bruck->element_bytes = dtype_bytes(need->dtype);
    bruck->reduction = (struct reduction){
        .dtype = need->dtype,
        .partial = need->partial,
        .op = need->op,
        .prescale = batch->prescale,
        .postscale = batch->postscale,
        .ranks = bruck->size,
    };
    for (int direction = 0; direction < BRUCK_DIRECTIONS; direction++)
        bruck->sides[direction].count = bruck->sides[direction].done = 0;
    bruck->complete = -1;
    if (need->kind == COLL_BROADCAST)
        start_broadcast(bruck);
    else if (bruck->shares_nodes)
        start_gather_broadcast(bruck);
    else
        start_allgather(bruck);
}

/* ---- The output, from gathered blocks -------------------------------------------------------- */

/* Reduce [count] elements from [offset] on of all members' inputs, in the order of members. */
static void reduce(const struct bruck *bruck, int64_t offset, int64_t count)
{
    const struct reduction *reduction = &bruck->reduction;
    size_t before = (size_t)offset * bruck->element_bytes;
    size_t block = block_bytes(bruck, bruck->rank);
    char *output = (char *)bruck->batch.output + before;
    char *sum = reduction->partial == reduction->dtype ? output : bruck->sum;
    for (int member = 0; member < bruck->size; member++) {
        size_t index = (size_t)member_at(bruck, member);
        const char *input = bruck->gathered + index * block + before;
        if (member == 0)
            reduce_begin(reduction, sum, input, count);
        else
            reduce_fold(reduction, sum, sum, input, count);
    }
    reduce_finish(reduction, output, sum, count);
}

static void reduce_share(const struct bruck *bruck)
{
    const int64_t *counts = bruck->batch.counts;
    int64_t offset = 0;
    for (int member = 0; member < bruck->rank; member++)
        offset += counts[member];
    reduce(bruck, offset, counts[bruck->rank]);
}

/* The last gathered block is that of the next member on the ring, the last but one that of the member after
 * it, and so on. */
static void unrotate(const struct bruck *bruck)
{
    const char *block = bruck->gathered + bytes_between(bruck, 0, bruck->size);
    char *place = bruck->batch.output;
    for (int member = 0; member <= bruck->rank; member++)
        place += block_bytes(bruck, member);
    for (int i = 1; i <= bruck->size; i++) {
        int member = (bruck->rank + i) % bruck->size;
        size_t bytes = block_bytes(bruck, member);
        place = member == 0 ? bruck->batch.output : place;
        block -= bytes;
        memcpy(place, block, bytes);
        place += bytes;
    }
}

/* Make the output from all blocks: this member's own part, or all of it if this member broadcasts it. */
static void complete(const struct bruck *bruck)
{
    if (bruck->batch.need.kind == COLL_ALLGATHER)
        unrotate(bruck);
    else if (bruck->batch.need.kind == COLL_REDUCESCATTER && !bruck->shares_nodes)
        reduce_share(bruck);
    else
        reduce(bruck, 0, bruck->batch.count);
}

/* ---- Messages ------------------------------------------------------------------------------- */

bool bruck_next(const struct bruck *bruck, enum bruck_direction direction, struct bruck_message *message)
{
    const struct bruck_transfers *side = &bruck->sides[direction];
    const struct bruck_transfer *transfer = &side->transfers[side->done];
    if (side->done == side->count || transfer->after > bruck->sides[BRUCK_RECEIVE].done)
        return false;
    *message = transfer->message;
    return true;
}

void bruck_message_done(struct bruck *bruck, enum bruck_direction direction)
{
    int done = ++bruck->sides[direction].done;
    if (direction == BRUCK_RECEIVE && done == bruck->complete)
        complete(bruck);
}

bool bruck_left(const struct bruck *bruck)
{
    const struct bruck_transfers *sides = bruck->sides;
    return sides[BRUCK_SEND].done < sides[BRUCK_SEND].count ||
           sides[BRUCK_RECEIVE].done < sides[BRUCK_RECEIVE].count;
}
