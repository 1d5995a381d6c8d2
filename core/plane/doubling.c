/* doubling.c: who sends what to whom, and when, in a batch of few bytes. */
#include "plane/doubling.h"

#include <stdlib.h>
#include <string.h>

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

int doubling_init(struct doubling *doubling, int rank, int size, struct hvd_error *err)
{
    size_t bytes = 2 * (size_t)DOUBLING_BYTES;
    *doubling = (struct doubling){.rank = rank, .size = size, .step_count = doubling_steps(size)};
    doubling->gathered = aligned_alloc(64, bytes);
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

static void start_gathering(struct doubling *doubling)
{
    int last = doubling->step_count - 1;
    int step = 0;
    size_t bytes = 0;
    for (int index = 0; index < doubling->size; index++) {
        if (index == INT64_C(1) << step)
            doubling->ends[step++] = bytes;
        if (index == doubling->size - (1 << last))
            doubling->last_length = bytes;
        bytes += block_bytes(doubling, member_at(doubling, index));
    }
    doubling->ends[doubling->step_count] = bytes;
    memset(doubling->steps, 0, sizeof(doubling->steps));
    doubling->limits[DOUBLING_OUT] = doubling->limits[DOUBLING_IN] = doubling->step_count;
    put_own(doubling);
}

/* Who is [distance] behind the root gets it from the one that is nearer by the highest power of two in it. */
static void start_broadcast(struct doubling *doubling)
{
    int distance = (doubling->rank - doubling->batch.root + doubling->size) % doubling->size;
    int first = doubling_steps(distance + 1);
    int beyond = first;
    while (beyond < doubling->step_count && distance + (INT64_C(1) << beyond) < doubling->size)
        beyond++;
    doubling->steps[DOUBLING_OUT] = first;
    doubling->limits[DOUBLING_OUT] = beyond;
    doubling->steps[DOUBLING_IN] = distance == 0 ? 0 : first - 1;
    doubling->limits[DOUBLING_IN] = first;
    if (distance == 0)
        put_own(doubling);
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
    if (need->kind == PLANE_BROADCAST)
        start_broadcast(doubling);
    else
        start_gathering(doubling);
}

/* ---- Its steps ------------------------------------------------------------------------------ */

static bool side_left(const struct doubling *doubling, enum doubling_way way)
{
    return doubling->steps[way] < doubling->limits[way];
}

bool doubling_piece(const struct doubling *doubling, enum doubling_way way, struct doubling_piece *piece)
{
    int step = doubling->steps[way];
    bool waits = side_left(doubling, DOUBLING_IN) && step > doubling->steps[DOUBLING_IN];
    if (!side_left(doubling, way) || waits)
        return false;
    *piece = (struct doubling_piece){step, doubling->gathered, block_bytes(doubling, doubling->rank)};
    if (doubling->batch.need.kind == PLANE_BROADCAST)
        return true;
    piece->length = step == doubling->step_count - 1 ? doubling->last_length : doubling->ends[step];
    if (way == DOUBLING_IN) {
        piece->bytes = doubling->gathered + doubling->ends[step];
        piece->length = doubling->ends[step + 1] - doubling->ends[step];
    }
    return true;
}

void doubling_through(struct doubling *doubling, enum doubling_way way)
{
    doubling->steps[way]++;
}

bool doubling_left(const struct doubling *doubling)
{
    return side_left(doubling, DOUBLING_OUT) || side_left(doubling, DOUBLING_IN);
}

/* ---- Its end -------------------------------------------------------------------------------- */

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
    const char *block = doubling->gathered + doubling->ends[doubling->step_count];
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

void doubling_finish(struct doubling *doubling)
{
    if (doubling->batch.need.kind == PLANE_ALLREDUCE)
        reduce(doubling, 0, doubling->batch.count);
    else if (doubling->batch.need.kind == PLANE_REDUCESCATTER)
        reduce_share(doubling);
    else if (doubling->batch.need.kind == PLANE_ALLGATHER)
        put_in_order(doubling);
    else
        memcpy(doubling->batch.output, doubling->gathered, block_bytes(doubling, doubling->rank));
}
