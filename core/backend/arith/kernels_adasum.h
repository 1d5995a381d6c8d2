/* kernels_adasum.h: the arithmetic of Adasum, for kernels.c: dot products, summed in a fixed order, and
 * weighted sums. */
#ifndef BACKEND_ARITH_KERNELS_ADASUM_H
#define BACKEND_ARITH_KERNELS_ADASUM_H

#include "backend/arith/kernels_types.h"
#include "backend/arith/reduce.h"

/* Products are summed in lanes, as vector instructions do it, and in pairs: element i of a block in lane i %
 * LANES. The order must not change between ranks, as they must agree on every bit. */
#define LANES 8

struct adasum_block {
    _Alignas(64) double values[REDUCE_BLOCK];
};

static inline int block_count(int64_t left)
{
    return left < REDUCE_BLOCK ? (int)left : REDUCE_BLOCK;
}

/* Load the block from element [begin] on, padded with zeros, which change no sum. */
static inline void block_load(struct adasum_block *block, enum hvd_dtype dtype, const void *elements,
                              int64_t begin, int64_t count)
{
    const float32 *singles = (const float32 *)elements + begin;
    const float64 *doubles = (const float64 *)elements + begin;
    int some = block_count(count - begin);
    if (dtype == HVD_FLOAT32) {
#pragma omp simd
        for (int i = 0; i < some; i++)
            block->values[i] = (double)singles[i];
    } else {
#pragma omp simd
        for (int i = 0; i < some; i++)
            block->values[i] = doubles[i];
    }
    for (int i = some; i < REDUCE_BLOCK; i++)
        block->values[i] = 0;
}

/* The sum of the products of a lane's first two elements. */
static inline double pair_dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[LANES] * b[LANES];
}

_Static_assert(REDUCE_BLOCK == 8 * LANES, "four pairs in each lane");

static inline double block_dot(const struct adasum_block *a, const struct adasum_block *b)
{
    double lanes[LANES];
    const double *x = a->values, *y = b->values;
#pragma omp simd
    for (int i = 0; i < LANES; i++)
        lanes[i] =
            (pair_dot(x + i, y + i) + pair_dot(x + i + 2 * LANES, y + i + 2 * LANES)) +
            (pair_dot(x + i + 4 * LANES, y + i + 4 * LANES) + pair_dot(x + i + 6 * LANES, y + i + 6 * LANES));
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

static inline void adasum_dots(enum hvd_dtype dtype, const void *a, const void *b, int64_t count,
                               double dots[3])
{
    for (int64_t begin = 0; begin < count; begin += REDUCE_BLOCK) {
        struct adasum_block a_block, b_block;
        block_load(&a_block, dtype, a, begin, count);
        block_load(&b_block, dtype, b, begin, count);
        dots[0] += block_dot(&a_block, &a_block);
        dots[1] += block_dot(&b_block, &b_block);
        dots[2] += block_dot(&a_block, &b_block);
    }
}

static inline void adasum_blend(enum hvd_dtype dtype, void *out, const void *a, const void *b,
                                const double factors[2], int64_t count)
{
    double a_factor = factors[0], b_factor = factors[1];
    if (dtype == HVD_FLOAT32) {
        float32 *to = out;
        const float32 *left = a, *right = b;
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            to[i] = (float)((double)left[i] * a_factor + (double)right[i] * b_factor);
    } else {
        float64 *to = out;
        const float64 *left = a, *right = b;
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            to[i] = left[i] * a_factor + right[i] * b_factor;
    }
}

#endif
