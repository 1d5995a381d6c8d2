/* batches.h: random batches for a whole team, each member's memory with guard bytes around it, and the
 * expected results. */
#ifndef TESTS_UNIT_BATCHES_H
#define TESTS_UNIT_BATCHES_H

#include <stdio.h>

#include "backend/arith/reduce.h"
#include "reference_sums.h"
#include "base/dtype.h"

#define BATCHES_MAX_RANKS 40
#define BATCHES_DTYPES    13
#define BATCHES_GUARD     64
#define BATCHES_SPANS     7

/* What is equal on all members. */
struct batch_plan {
    struct backend_need need;
    int root;
    uint64_t sequence;
    double prescale, postscale;
    bool in_place;
    int64_t count;
    /* Elements from one member to another, for alltoall; other kinds use the first row. */
    int64_t counts[BATCHES_MAX_RANKS][BATCHES_MAX_RANKS];
};

/* One member's part in it. */
struct batch_part {
    char *room; /* where its memory is placed; NULL: anywhere */
    struct backend_batch batch;
    char *input, *output;
    size_t input_bytes, output_bytes;
    int64_t receive_counts[BATCHES_MAX_RANKS];
};

/* Between 0 and [below] - 1. */
static inline int batch_plan_random_below(uint64_t *random, int below)
{
    return (int)((reference_random(random) >> 33) % (uint64_t)below);
}

static inline void batch_plan_random_types(struct batch_plan *plan, uint64_t *random)
{
    static const double factors[] = {1, 1, 1, 0.5, -3, 1.0 / 7};
    struct backend_need *need = &plan->need;
    need->dtype = (enum hvd_dtype)batch_plan_random_below(random, BATCHES_DTYPES);
    do
        need->op = (enum hvd_op)batch_plan_random_below(random, HVD_PRODUCT + 1);
    while (!reduce_can(need->op, need->dtype));
    need->partial = batch_plan_random_below(random, 4) == 0 ? need->dtype : reduce_partial(need->dtype);
    plan->prescale = factors[batch_plan_random_below(random, 6)];
    plan->postscale = factors[batch_plan_random_below(random, 6)];
}

/* A batch of a team of [size], with counts around the edges of chunks of [chunk_bytes]. */
static inline struct batch_plan batch_plan_random(uint64_t *random, enum backend_kind kind, int size,
                                                  int64_t chunk_bytes)
{
    struct batch_plan plan = {.need = {.kind = kind, .ranks = size},
                              .sequence = reference_random(random) >> 40};
    batch_plan_random_types(&plan, random);
    plan.root = batch_plan_random_below(random, size);
    plan.in_place = batch_plan_random_below(random, 2) == 0 && kind != COLL_ALLTOALL;
    int64_t chunk = chunk_bytes / (int64_t)dtype_bytes(plan.need.dtype);
    const int64_t counts[] = {1, 3, chunk - 1, chunk, chunk + 1, 2 * chunk, 7 * chunk + 5, 20 * chunk - 1};
    const int64_t parts[] = {0, 0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk + 2};
    plan.count = counts[batch_plan_random_below(random, 8)];
    if (kind == COLL_ALLREDUCE || kind == COLL_BROADCAST)
        return plan;
    plan.count = 0;
    for (int from = 0; from < size; from++) {
        for (int to = 0; to < size; to++)
            plan.counts[from][to] = parts[batch_plan_random_below(random, 7)];
        plan.count += plan.counts[0][from];
    }
    if (plan.count == 0)
        plan.count = plan.counts[0][size - 1] = 5;
    return plan;
}

static inline char *guarded_in(char *memory, size_t bytes)
{
    memset(memory, 0x5a, bytes + (size_t)2 * BATCHES_GUARD);
    return memory + BATCHES_GUARD;
}

static inline char *guarded(size_t bytes)
{
    return guarded_in(malloc(bytes + (size_t)2 * BATCHES_GUARD), bytes);
}

/* Returns false if the guard bytes were overwritten. */
static inline bool guarded_intact(const char *memory, size_t bytes)
{
    bool intact = true;
    for (size_t i = 0; memory != NULL && i < BATCHES_GUARD; i++)
        intact = intact && memory[-1 - (ptrdiff_t)i] == 0x5a && memory[bytes + i] == 0x5a;
    return intact;
}

/* The same, and free the memory. Does nothing for NULL. */
static inline bool guarded_free(char *memory, size_t bytes)
{
    bool intact = guarded_intact(memory, bytes);
    if (memory != NULL)
        free(memory - BATCHES_GUARD);
    return intact;
}

/* The number of elements that [rank] sends, and receives. */
static inline int64_t batch_plan_sent(const struct batch_plan *plan, int rank)
{
    int64_t sum = 0;
    if (plan->need.kind == COLL_ALLGATHER)
        return plan->counts[0][rank];
    for (int to = 0; plan->need.kind == COLL_ALLTOALL && to < plan->need.ranks; to++)
        sum += plan->counts[rank][to];
    return plan->need.kind == COLL_ALLTOALL ? sum : plan->count;
}

static inline int64_t batch_plan_received(const struct batch_plan *plan, int rank)
{
    int64_t sum = 0;
    for (int from = 0; plan->need.kind == COLL_ALLTOALL && from < plan->need.ranks; from++)
        sum += plan->counts[from][rank];
    return plan->need.kind == COLL_ALLTOALL ? sum : plan->count;
}

/* The input of [rank]: no NaN, and no values so large that the result becomes one. */
static inline void batch_plan_input(const struct batch_plan *plan, int rank, void *input)
{
    enum hvd_dtype dtype = plan->need.dtype;
    int64_t count = batch_plan_sent(plan, rank);
    uint64_t seed = plan->sequence * 1000 + (uint64_t)rank;
    uint64_t state = seed * 2 + 1;
    if (dtype < REFERENCE_SUMS_DTYPES) {
        reference_sums_fill(dtype, input, count, seed);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = reference_random(&state) >> 20;
        if (dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16)
            ((uint16_t *)input)[i] = (uint16_t)(bits & 0xbfff);
        else if (dtype_is_float8(dtype))
            ((uint8_t *)input)[i] = (uint8_t)(bits & 0xbf);
        else if (dtype_bytes(dtype) == 2)
            ((uint16_t *)input)[i] = (uint16_t)bits;
        else
            ((uint8_t *)input)[i] = (uint8_t)(dtype == HVD_BOOL ? bits & bits >> 8 & 3 : bits);
    }
}

static inline bool batch_plan_reduces(const struct batch_plan *plan)
{
    return plan->need.kind == COLL_ALLREDUCE || plan->need.kind == COLL_REDUCESCATTER;
}

static inline int64_t batch_plan_offset(const struct batch_plan *plan, int from, int to)
{
    int64_t offset = 0;
    for (int i = 0; i < to; i++)
        offset += plan->counts[from][i];
    return offset;
}

/* [at] bytes into its room, where it has one. */
static inline char *batch_part_memory(const struct batch_part *part, size_t at, size_t bytes)
{
    return part->room == NULL ? guarded(bytes) : guarded_in(part->room + at, bytes);
}

/* Free the memory. Returns false if the guard bytes were overwritten. */
static inline bool batch_part_free(struct batch_part *part)
{
    bool intact =
        guarded_intact(part->output, part->output_bytes) && guarded_intact(part->input, part->input_bytes);
    if (part->room == NULL) {
        guarded_free(part->output, part->output_bytes);
        guarded_free(part->input, part->input_bytes);
    }
    return intact;
}

/* [rank]'s memory for it, in [room] unless that is NULL, and its batch. */
static inline void batch_part_open_in(struct batch_part *part, const struct batch_plan *plan, int rank,
                                      char *room)
{
    part->room = room;
    size_t element = dtype_bytes(plan->need.dtype);
    bool reads = plan->need.kind != COLL_BROADCAST || rank == plan->root;
    int row = plan->need.kind == COLL_ALLTOALL ? rank : 0;
    part->input_bytes = (size_t)batch_plan_sent(plan, rank) * element;
    part->output_bytes = (size_t)batch_plan_received(plan, rank) * element;
    part->output = batch_part_memory(part, 0, part->output_bytes);
    part->input =
        reads && !plan->in_place
            ? batch_part_memory(part, part->output_bytes + (size_t)2 * BATCHES_GUARD, part->input_bytes)
            : NULL;
    for (int from = 0; from < plan->need.ranks; from++)
        part->receive_counts[from] = plan->counts[from][rank];
    part->batch = (struct backend_batch){
        .need = plan->need,
        .root = plan->root,
        .sequence = plan->sequence,
        .input = part->input,
        .output = part->output,
        .prescale = plan->prescale,
        .postscale = plan->postscale,
        .count = plan->count,
        .counts = plan->counts[row],
        .receive_counts = part->receive_counts,
    };
    if (plan->in_place) {
        bool gathers = plan->need.kind == COLL_ALLGATHER;
        part->batch.input =
            part->output + (gathers ? batch_plan_offset(plan, 0, rank) * (int64_t)element : 0);
    }
    if (reads)
        batch_plan_input(plan, rank, (void *)(uintptr_t)part->batch.input);
}

static inline void batch_part_open(struct batch_part *part, const struct batch_plan *plan, int rank)
{
    batch_part_open_in(part, plan, rank, NULL);
}

/* By the plainest means there are where sums.h has them. */
static inline void batch_plan_reduce(const struct batch_plan *plan, char *result)
{
    const struct backend_need *need = &plan->need;
    struct reduction reduction = {.dtype = need->dtype,
                                  .partial = need->partial,
                                  .op = need->op,
                                  .prescale = plan->prescale,
                                  .postscale = plan->postscale,
                                  .ranks = need->ranks};
    bool plain = need->dtype < REFERENCE_SUMS_DTYPES && need->op <= HVD_AVERAGE && plan->prescale == 1;
    char *input = malloc((size_t)plan->count * 8);
    char *sum = malloc((size_t)plan->count * 8);
    batch_plan_input(plan, 0, input);
    if (plain)
        memcpy(sum, input, (size_t)plan->count * dtype_bytes(need->dtype));
    else
        reduce_begin(&reduction, sum, input, plan->count);
    for (int rank = 1; rank < need->ranks; rank++) {
        batch_plan_input(plan, rank, input);
        if (plain)
            reference_sums_add(need->dtype, sum, input, plan->count);
        else
            reduce_fold(&reduction, sum, sum, input, plan->count);
    }
    if (plain && need->op == HVD_AVERAGE && plan->postscale == 1) {
        reference_sums_divide(need->dtype, sum, plan->count, need->ranks);
        reduction.op = HVD_SUM;
    }
    reduce_finish(&reduction, result, sum, plan->count);
    free(input);
    free(sum);
}

/* What [rank] must have in the end, in memory that the caller frees. */
static inline char *batch_plan_expected(const struct batch_plan *plan, int rank)
{
    size_t element = dtype_bytes(plan->need.dtype);
    int size = plan->need.ranks;
    char *expected = malloc((size_t)batch_plan_received(plan, rank) * element + 1);
    char *at = expected;
    if (batch_plan_reduces(plan))
        batch_plan_reduce(plan, expected);
    else if (plan->need.kind == COLL_BROADCAST)
        batch_plan_input(plan, plan->root, expected);
    for (int from = 0; plan->need.kind == COLL_ALLGATHER && from < size; from++) {
        batch_plan_input(plan, from, at);
        at += (size_t)plan->counts[0][from] * element;
    }
    for (int from = 0; plan->need.kind == COLL_ALLTOALL && from < size; from++) {
        char *input = malloc((size_t)batch_plan_sent(plan, from) * element + 1);
        size_t bytes = (size_t)plan->counts[from][rank] * element;
        batch_plan_input(plan, from, input);
        memcpy(at, input + (size_t)batch_plan_offset(plan, from, rank) * element, bytes);
        at += bytes;
        free(input);
    }
    return expected;
}

/* The batch is done at [rank]: is what has come right, and input as it was? */
static inline bool batch_part_is_right(const struct batch_part *part, const struct batch_plan *plan, int rank)
{
    size_t element = dtype_bytes(plan->need.dtype);
    char *expected = batch_plan_expected(plan, rank);
    size_t offset = 0, bytes = part->output_bytes;
    if (plan->need.kind == COLL_REDUCESCATTER) {
        offset = (size_t)batch_plan_offset(plan, 0, rank) * element;
        bytes = (size_t)plan->counts[0][rank] * element;
    }
    bool right = memcmp(part->output + offset, expected + offset, bytes) == 0;
    free(expected);
    if (part->input != NULL) {
        expected = malloc(part->input_bytes + 1);
        batch_plan_input(plan, rank, expected);
        right = right && memcmp(part->input, expected, part->input_bytes) == 0;
        free(expected);
    }
    return right;
}

/* The batch is done at [rank]: free its memory and say whether all was right; where it was not, in a line
 * too. */
static inline bool batch_part_close(struct batch_part *part, const struct batch_plan *plan, int rank)
{
    bool right = batch_part_is_right(part, plan, rank);
    right = batch_part_free(part) && right;
    if (!right)
        fprintf(stderr, "# kind %d of %s (partial %s), op %s, %d ranks, count %lld: wrong at member %d\n",
                (int)plan->need.kind, dtype_name(plan->need.dtype), dtype_name(plan->need.partial),
                op_name(plan->need.op), plan->need.ranks, (long long)plan->count, rank);
    return right;
}

/* Divide the tensors of some members into several spans. [spans] must stay valid until the batch is done. */
static inline void batch_part_split_into_spans(struct batch_part *part,
                                               struct backend_span spans[BATCHES_SPANS])
{
    struct backend_batch *batch = &part->batch;
    int64_t element = (int64_t)dtype_bytes(batch->need.dtype);
    if (batch->need.kind != COLL_ALLREDUCE || batch->count < BATCHES_SPANS)
        return;
    for (int i = 0; i < BATCHES_SPANS; i++) {
        int64_t begin = batch->count * i * i / (BATCHES_SPANS * BATCHES_SPANS);
        int64_t end = batch->count * (i + 1) * (i + 1) / (BATCHES_SPANS * BATCHES_SPANS);
        if (end == begin)
            continue;
        spans[batch->span_count++] =
            (struct backend_span){(const char *)batch->input + begin * element,
                                  (char *)batch->output + begin * element, begin, end - begin};
    }
    batch->spans = spans;
    batch->input = batch->output = NULL;
}

/* The batch was aborted, so the caller may reuse its memory: write something else there. */
static inline void batch_part_abandon(const struct batch_part *part)
{
    memset(part->output, 0xee, part->output_bytes);
    if (part->input != NULL)
        memset(part->input, 0xee, part->input_bytes);
}

/* Free the memory. Returns whether nobody else has written there since. */
static inline bool batch_part_close_untouched(struct batch_part *part)
{
    bool same = true;
    for (size_t i = 0; i < part->output_bytes; i++)
        same = same && (unsigned char)part->output[i] == 0xee;
    for (size_t i = 0; part->input != NULL && i < part->input_bytes; i++)
        same = same && (unsigned char)part->input[i] == 0xee;
    return batch_part_free(part) && same;
}

#endif
