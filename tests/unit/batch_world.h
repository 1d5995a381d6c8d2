/* batch_world.h: all members of a process set in one process, each with its own batch, and a backend that is
 * a plain loop over the members. */
#ifndef TESTS_UNIT_BATCH_WORLD_H
#define TESTS_UNIT_BATCH_WORLD_H

#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "flow/batch/adasum.h"
#include "flow/batch/batch.h"
#include "flow/batch/layout.h"
#include "flow/batch/row_counts.h"
#include "backend/arith/reduce.h"
#include "base/dtype.h"

#define BATCH_WORLD_MAX 8

struct set_member {
    struct process_set set;
    struct batch *batch;
    struct batch *rest;      /* the tensors that were cut off for another batch, or NULL */
    struct request *request; /* all tensors of batch belong to this one */
    void *buffer;            /* exactly as large as the batch asked for */
    int packs, unpacks;      /* calls that packed and unpacked a portion */
};

struct batch_world {
    int size;
    int ranks[BATCH_WORLD_MAX];
    struct set_member at[BATCH_WORLD_MAX];
    int64_t threshold_bytes;
    int carried; /* transfers that the backend has carried */
};

/* The members are ranks 10, 13, 16, ... of a larger job. */
static inline struct batch_world *batch_world_create(int size)
{
    struct batch_world *sides = calloc(1, sizeof(*sides));
    sides->size = size;
    sides->threshold_bytes = INT64_C(64) << 20;
    for (int i = 0; i < size; i++)
        sides->ranks[i] = 10 + 3 * i;
    for (int i = 0; i < size; i++)
        sides->at[i].set.members = (struct team){.set = 5, .rank = i, .size = size, .ranks = sides->ranks};
    return sides;
}

static inline void batch_world_free(struct batch_world *sides)
{
    for (int i = 0; i < sides->size; i++) {
        batch_free(sides->at[i].batch);
        batch_free(sides->at[i].rest);
        request_free(sides->at[i].request);
        free(sides->at[i].buffer);
    }
    free(sides);
}

/* A description for all members. The caller fills the tensors, then calls batch_world_begin. */
static inline struct desc *describe(enum desc_kind kind, int tensor_count, enum hvd_dtype dtype)
{
    struct desc *desc = desc_create(tensor_count);
    desc->kind = kind;
    desc->set = 5;
    for (int i = 0; i < tensor_count; i++) {
        desc->tensors[i].dtype = dtype;
        desc->tensors[i].ndim = 1;
        snprintf(desc->tensors[i].name, sizeof(desc->tensors[i].name), "t%d", i);
    }
    return desc;
}

/* Create each member's request for [desc]. The caller then sets the tensors' memory. */
static inline void batch_world_begin(struct batch_world *sides, struct desc *desc)
{
    for (int i = 0; i < sides->size; i++) {
        struct set_member *side = &sides->at[i];
        side->request = request_create(desc);
        for (int t = 0; t < desc->tensor_count; t++)
            side->request->tensors[t].count = desc_count(&desc->tensors[t]);
    }
    desc_release(desc);
}

/* Put all tensors of each member into one batch, for a backend that takes one buffer: those of host memory
 * take the tensors of a large allreduce where they lie. */
static inline void batch_world_pack_all(struct batch_world *sides)
{
    for (int i = 0; i < sides->size; i++) {
        struct set_member *side = &sides->at[i];
        side->batch = batch_create(&side->set, BACKEND_NCCL, side->request->desc, 0);
        for (int t = 0; t < side->request->tensor_count; t++)
            batch_add(side->batch, &side->request->tensors[t]);
    }
}

/* For very many elements: Check's own assertion would record each of them. */
static inline void expect_equal(double value, double expected)
{
    if (value != expected)
        ck_assert_double_eq(value, expected);
}

/* ---- The backend ---- */

static inline double element_get(enum hvd_dtype dtype, const void *at, int64_t i)
{
    float wide = 0;
    switch (dtype) {
    case HVD_INT32:
        return ((const int32_t *)at)[i];
    case HVD_FLOAT32:
        return ((const float *)at)[i];
    case HVD_FLOAT64:
        return ((const double *)at)[i];
    case HVD_UINT8:
        return ((const uint8_t *)at)[i];
    case HVD_FLOAT16:
    case HVD_BFLOAT16:
        reduce_convert(HVD_FLOAT32, &wide, dtype, (const char *)at + 2 * i, 1);
        return wide;
    default:
        ck_abort_msg("type %d", (int)dtype);
    }
}

static inline void element_set(enum hvd_dtype dtype, void *at, int64_t i, double value)
{
    float wide = (float)value;
    switch (dtype) {
    case HVD_INT32:
        ((int32_t *)at)[i] = (int32_t)value;
        break;
    case HVD_FLOAT32:
        ((float *)at)[i] = wide;
        break;
    case HVD_FLOAT64:
        ((double *)at)[i] = value;
        break;
    case HVD_UINT8:
        ((uint8_t *)at)[i] = (uint8_t)value;
        break;
    case HVD_FLOAT16:
    case HVD_BFLOAT16:
        reduce_convert(dtype, (char *)at + 2 * i, HVD_FLOAT32, &wide, 1);
        break;
    default:
        ck_abort_msg("type %d", (int)dtype);
    }
}

static inline const struct backend_batch *transfer_of(const struct batch_world *sides, int member)
{
    return &sides->at[member].batch->transfer;
}

static inline int64_t sum_counts(const int64_t *counts, int count)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += counts[i];
    return sum;
}

static inline void carry_reduction(const struct batch_world *sides)
{
    const struct backend_batch *first = transfer_of(sides, 0);
    enum hvd_dtype dtype = first->need.dtype;
    double *sums = calloc((size_t)first->count, sizeof(*sums));
    for (int m = 0; m < sides->size; m++) {
        for (int64_t i = 0; i < first->count; i++)
            sums[i] += element_get(dtype, transfer_of(sides, m)->input, i) * first->prescale;
    }
    for (int m = 0; m < sides->size; m++) {
        const struct backend_batch *transfer = transfer_of(sides, m);
        int64_t from = 0;
        int64_t to = transfer->count;
        if (transfer->need.kind == COLL_REDUCESCATTER) {
            from = sum_counts(transfer->counts, m);
            to = from + transfer->counts[m];
            /* the output outside the member's own share is undefined */
            if (transfer->input != transfer->output)
                memset(transfer->output, 0xee, (size_t)transfer->count * dtype_bytes(dtype));
        }
        for (int64_t i = from; i < to; i++)
            element_set(dtype, transfer->output, i, sums[i] * transfer->postscale);
    }
    free(sums);
}

static inline void carry_gather(const struct batch_world *sides)
{
    size_t element_bytes = dtype_bytes(transfer_of(sides, 0)->need.dtype);
    size_t all_bytes = (size_t)transfer_of(sides, 0)->count * element_bytes;
    char *all = malloc(all_bytes);
    char *at = all;
    for (int m = 0; m < sides->size; m++) {
        size_t bytes = (size_t)transfer_of(sides, m)->counts[m] * element_bytes;
        if (bytes > 0)
            memcpy(at, transfer_of(sides, m)->input, bytes);
        at += bytes;
    }
    ck_assert_uint_eq((size_t)(at - all), all_bytes);
    for (int m = 0; m < sides->size; m++)
        memcpy(transfer_of(sides, m)->output, all, all_bytes);
    free(all);
}

static inline void carry_exchange(const struct batch_world *sides)
{
    size_t element_bytes = dtype_bytes(transfer_of(sides, 0)->need.dtype);
    for (int to = 0; to < sides->size; to++) {
        const struct backend_batch *taker = transfer_of(sides, to);
        char *at = taker->output;
        for (int from = 0; from < sides->size; from++) {
            const struct backend_batch *giver = transfer_of(sides, from);
            size_t bytes = (size_t)giver->counts[to] * element_bytes;
            ck_assert_int_eq(giver->counts[to], taker->receive_counts[from]);
            if (bytes > 0)
                memcpy(at, (const char *)giver->input + (size_t)sum_counts(giver->counts, to) * element_bytes,
                       bytes);
            at += bytes;
        }
    }
}

/* Carry the members' transfers as backend.h promises, and check what backend.h requires of all members. */
static inline void batch_world_transfer(struct batch_world *sides)
{
    const struct backend_batch *first = transfer_of(sides, 0);
    size_t counts_bytes = (size_t)sides->size * sizeof(int64_t);
    sides->carried++;
    for (int m = 0; m < sides->size; m++) {
        const struct backend_batch *transfer = transfer_of(sides, m);
        ck_assert_mem_eq(&transfer->need, &first->need, sizeof(transfer->need));
        if (transfer->need.kind == COLL_ALLTOALL)
            continue;
        ck_assert_int_eq(transfer->count, first->count);
        ck_assert_int_gt(transfer->count, 0);
        if (transfer->need.kind == COLL_ALLGATHER || transfer->need.kind == COLL_REDUCESCATTER) {
            ck_assert_mem_eq(transfer->counts, first->counts, counts_bytes);
            ck_assert_int_eq(sum_counts(transfer->counts, sides->size), transfer->count);
        }
    }
    if (first->need.kind == COLL_ALLGATHER)
        carry_gather(sides);
    else if (first->need.kind == COLL_ALLTOALL)
        carry_exchange(sides);
    else if (first->need.kind != COLL_BROADCAST)
        carry_reduction(sides);
    for (int m = 0; m < sides->size && first->need.kind == COLL_BROADCAST; m++) {
        if (transfer_of(sides, m)->output != transfer_of(sides, first->root)->input)
            memcpy(transfer_of(sides, m)->output, transfer_of(sides, first->root)->input,
                   (size_t)first->count * dtype_bytes(first->need.dtype));
    }
}

/* ---- Running a batch ---- */

/* As host_steps.c: a batch of Adasum has steps of its own. */
static inline int set_member_plan(struct batch *batch)
{
    if (batch_adasum(batch) != NULL)
        return adasum_plan(batch, NULL);
    if (batch_is_sized_later(batch))
        row_counts_allocate(batch);
    return layout_plan(batch, NULL);
}

/* Advance one member until it needs the others or is done. */
static inline void set_member_advance(struct set_member *side)
{
    struct batch *batch = side->batch;
    while (batch->stage != BATCH_START && batch->stage != BATCH_DONE) {
        switch (batch->stage) {
        case BATCH_ROW_COUNTS:
            ck_assert_int_eq(row_counts_exchange(batch, NULL), HVD_OK);
            break;
        case BATCH_LAY_OUT:
            ck_assert_int_eq(set_member_plan(batch), HVD_OK);
            free(side->buffer);
            side->buffer = malloc((size_t)batch->layout.buffer_bytes);
            (batch_adasum(batch) != NULL ? adasum_place : layout_place)(batch, side->buffer);
            break;
        case BATCH_PACK:
            (batch_adasum(batch) != NULL ? adasum_pack : layout_pack)(batch);
            side->packs++;
            break;
        case BATCH_COMBINE:
            adasum_combine(batch);
            break;
        case BATCH_UNPACK:
            (batch_adasum(batch) != NULL ? adasum_unpack : layout_unpack)(batch);
            side->unpacks++;
            break;
        default:
            ck_abort_msg("stage %d", (int)batch->stage);
        }
    }
}

/* Run all members' batches to the end. True if tensors were cut off for another batch. */
static inline bool batch_world_run(struct batch_world *sides)
{
    bool cut = false;
    for (;;) {
        for (int i = 0; i < sides->size; i++) {
            set_member_advance(&sides->at[i]);
            ck_assert_int_eq(sides->at[i].batch->stage, sides->at[0].batch->stage);
        }
        if (sides->at[0].batch->stage == BATCH_DONE)
            return cut;
        batch_world_transfer(sides);
        for (int i = 0; i < sides->size; i++) {
            struct batch *batch = sides->at[i].batch;
            batch->stage = BATCH_RUN;
            if (!batch->counts.exchanging) {
                (batch_adasum(batch) != NULL ? adasum_transferred : layout_transferred)(batch);
                continue;
            }
            ck_assert_int_eq(row_counts_apply(batch, sides->threshold_bytes, &sides->at[i].rest, NULL),
                             HVD_OK);
            cut = sides->at[i].rest != NULL;
        }
    }
}

/* Continue with the batch that was cut off. */
static inline void batch_world_next(struct batch_world *sides)
{
    for (int i = 0; i < sides->size; i++) {
        struct set_member *side = &sides->at[i];
        batch_free(side->batch);
        side->batch = side->rest;
        side->rest = NULL;
    }
}

#endif
