/* reference_sums.h: inputs for which a sum in another order has other bits, and what must come out of them.
 */
#ifndef TESTS_UNIT_REFERENCE_SUMS_H
#define TESTS_UNIT_REFERENCE_SUMS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/dtype.h"

#define REFERENCE_SUMS_DTYPES 4

/* A small random generator with an explicit seed (xorshift64*), so that a failure can be reproduced. */
static inline uint64_t reference_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Values of very different size and both signs; integers of all bits, so that their sums wrap around. */
static inline void reference_sums_fill(enum hvd_dtype dtype, void *data, int64_t count, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = reference_random(&state);
        double value = ldexp((double)(bits >> 12) - ldexp(1, 51), -40 + (int)(bits & 31));
        if (dtype == HVD_INT32)
            ((uint32_t *)data)[i] = (uint32_t)bits;
        else if (dtype == HVD_INT64)
            ((uint64_t *)data)[i] = bits;
        else if (dtype == HVD_FLOAT32)
            ((float *)data)[i] = (float)value;
        else
            ((double *)data)[i] = value;
    }
}

/* One step of the sum, from left to right, in the simplest way. */
static inline void reference_sums_add(enum hvd_dtype dtype, void *sum, const void *in, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (dtype == HVD_INT32)
            ((uint32_t *)sum)[i] += ((const uint32_t *)in)[i];
        else if (dtype == HVD_INT64)
            ((uint64_t *)sum)[i] += ((const uint64_t *)in)[i];
        else if (dtype == HVD_FLOAT32)
            ((float *)sum)[i] += ((const float *)in)[i];
        else
            ((double *)sum)[i] += ((const double *)in)[i];
    }
}

static inline void reference_sums_divide(enum hvd_dtype dtype, void *sum, int64_t count, int divisor)
{
    for (int64_t i = 0; i < count; i++) {
        if (dtype == HVD_INT32)
            ((int32_t *)sum)[i] = (int32_t)(((int32_t *)sum)[i] / divisor);
        else if (dtype == HVD_INT64)
            ((int64_t *)sum)[i] = ((int64_t *)sum)[i] / divisor;
        else if (dtype == HVD_FLOAT32)
            ((float *)sum)[i] = ((float *)sum)[i] / (float)divisor;
        else
            ((double *)sum)[i] = ((double *)sum)[i] / divisor;
    }
}

/* Fill the input of [rank] in a batch. */
static inline void reference_sums_input(const struct backend_batch *batch, int rank, void *data)
{
    reference_sums_fill(batch->need.dtype, data, batch->count, batch->sequence * 1000 + (uint64_t)rank);
}

/* What every rank must have at the end of a batch over [size] ranks, in memory that the caller frees. */
static inline void *reference_sums_expected(const struct backend_batch *batch, int size)
{
    size_t bytes = (size_t)batch->count * dtype_bytes(batch->need.dtype);
    char *sum = malloc(bytes);
    char *in = malloc(bytes);
    reference_sums_input(batch, batch->need.kind == COLL_BROADCAST ? batch->root : 0, sum);
    for (int rank = 1; batch->need.kind == COLL_ALLREDUCE && rank < size; rank++) {
        reference_sums_input(batch, rank, in);
        reference_sums_add(batch->need.dtype, sum, in, batch->count);
    }
    if (batch->need.kind == COLL_ALLREDUCE && batch->need.op == HVD_AVERAGE)
        reference_sums_divide(batch->need.dtype, sum, batch->count, size);
    free(in);
    return sum;
}

#endif
