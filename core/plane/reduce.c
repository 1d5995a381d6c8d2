/* reduce.c: reductions: elements are made what arithmetic is done in, scaled, put together, and rounded. */
#include "plane/reduce.h"

#include <string.h>

#include "plane/arith.h"
#include "plane/half.h"
#include "plane/plane.h"

/* Where there is more to do than one operation it is done block by block, which stay in the fastest cache. */
#define BLOCK_COUNT 512

struct block {
    _Alignas(64) char bytes[BLOCK_COUNT * sizeof(double)];
};

bool reduce_can(enum hvd_op op, enum hvd_dtype dtype)
{
    return dtype_name(dtype) != NULL && (unsigned)op <= HVD_PRODUCT && arith_of(dtype)->fold[op] != NULL;
}

enum hvd_dtype reduce_partial(enum hvd_dtype dtype)
{
    return dtype_is_half(dtype) ? HVD_FLOAT32 : dtype;
}

/* Does multiplying by [factor] change elements of [dtype]? */
static bool scales(enum hvd_dtype dtype, double factor)
{
    return factor != 1 && dtype != HVD_BOOL;
}

bool reduce_is_plain(const struct reduction *reduction)
{
    return reduction->partial == reduction->dtype && !scales(reduction->dtype, reduction->prescale);
}

static int64_t block_count(int64_t left)
{
    return left < BLOCK_COUNT ? left : BLOCK_COUNT;
}

static void *element_at(enum hvd_dtype dtype, void *elements, int64_t index)
{
    return (char *)elements + index * (int64_t)dtype_bytes(dtype);
}

static const void *input_at(enum hvd_dtype dtype, const void *elements, int64_t index)
{
    return (const char *)elements + index * (int64_t)dtype_bytes(dtype);
}

/* The elements * factor as arithmetic wants them: in [room], or where they lie if nothing has to be done. */
static const void *operand(enum hvd_dtype dtype, void *room, const void *elements, int64_t count,
                           double factor)
{
    const void *operands = elements;
    if (dtype_is_half(dtype)) {
        half_widen(dtype, room, operands, count);
        operands = room;
    }
    if (scales(dtype, factor)) {
        arith_of(dtype)->scale(room, operands, count, factor);
        operands = room;
    }
    return operands;
}

/* Put what arithmetic made, of [made_dtype], to its place, of [dtype]. */
static void deliver(enum hvd_dtype dtype, void *to, const void *made, int64_t count)
{
    if (dtype_is_half(dtype))
        half_narrow(dtype, to, made, count);
    else if (to != made)
        memcpy(to, made, (size_t)count * dtype_bytes(dtype));
}

void reduce_begin(const struct reduction *reduction, void *partial, const void *input, int64_t count)
{
    if (reduce_is_plain(reduction)) {
        reduce_convert(reduction->partial, partial, reduction->dtype, input, count);
        return;
    }
    bool narrows = dtype_is_half(reduction->partial);
    for (int64_t i = 0; i < count; i += BLOCK_COUNT) {
        struct block block;
        int64_t some = block_count(count - i);
        void *to = element_at(reduction->partial, partial, i);
        const void *from = input_at(reduction->dtype, input, i);
        const void *made =
            operand(reduction->dtype, narrows ? block.bytes : to, from, some, reduction->prescale);
        deliver(reduction->partial, to, made, some);
    }
}

void reduce_fold(const struct reduction *reduction, void *out, const void *left, const void *input,
                 int64_t count)
{
    arith_fold_f *fold = arith_of(reduction->dtype)->fold[reduction->op];
    bool narrows = dtype_is_half(reduction->partial);
    if (reduce_is_plain(reduction) && !narrows) {
        fold(out, left, input, count);
        return;
    }
    for (int64_t i = 0; i < count; i += BLOCK_COUNT) {
        struct block left_block, right_block;
        int64_t some = block_count(count - i);
        void *to = element_at(reduction->partial, out, i);
        const void *a =
            operand(reduction->partial, left_block.bytes, input_at(reduction->partial, left, i), some, 1);
        const void *b = operand(reduction->dtype, right_block.bytes, input_at(reduction->dtype, input, i),
                                some, reduction->prescale);
        void *made = narrows ? left_block.bytes : to;
        fold(made, a, b, some);
        deliver(reduction->partial, to, made, some);
    }
}

void reduce_finish(const struct reduction *reduction, void *result, const void *partial, int64_t count)
{
    enum hvd_dtype dtype = reduction->dtype;
    const struct arith *arith = arith_of(dtype);
    if (dtype == HVD_BOOL) {
        arith->fold[HVD_MAX](result, partial, partial, count); /* an input may be its only partial result */
        return;
    }
    bool averages = reduction->op == HVD_AVERAGE;
    if (!averages && !scales(dtype, reduction->postscale)) {
        reduce_convert(dtype, result, reduction->partial, partial, count);
        return;
    }
    bool narrows = dtype_is_half(dtype);
    for (int64_t i = 0; i < count; i += BLOCK_COUNT) {
        struct block block;
        int64_t some = block_count(count - i);
        void *to = element_at(dtype, result, i);
        void *room = narrows ? block.bytes : to;
        const void *made =
            operand(reduction->partial, room, input_at(reduction->partial, partial, i), some, 1);
        if (averages) {
            arith->divide(room, made, some, reduction->ranks);
            made = room;
        }
        if (scales(dtype, reduction->postscale)) {
            arith->scale(room, made, some, reduction->postscale);
            made = room;
        }
        deliver(dtype, to, made, some);
    }
}

void reduce_convert(enum hvd_dtype to_dtype, void *to, enum hvd_dtype from_dtype, const void *from,
                    int64_t count)
{
    if (to_dtype != from_dtype && dtype_is_half(to_dtype))
        half_narrow(to_dtype, to, from, count);
    else if (to_dtype != from_dtype)
        half_widen(from_dtype, to, from, count);
    else if (to != from && count > 0)
        memcpy(to, from, (size_t)count * dtype_bytes(to_dtype));
}
