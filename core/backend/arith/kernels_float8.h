/* kernels_float8.h: vectors of float8 to and from float32, for kernels.c, in operations that every compiler
 * vectorises. */
#ifndef BACKEND_ARITH_KERNELS_FLOAT8_H
#define BACKEND_ARITH_KERNELS_FLOAT8_H

#include "backend/arith/kernels_types.h"
#include "base/narrow.h"

static inline void float8_e4m3_widen(void *to, const void *from, int64_t count)
{
    single_bits *singles = to;
    const uint8 *bytes = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        singles[i] = float8_e4m3_widened(bytes[i]);
}

static inline void float8_e4m3_narrow(void *to, const void *from, int64_t count)
{
    uint8 *bytes = to;
    const single_bits *singles = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)float8_e4m3_narrowed(singles[i]);
}

static inline void float8_e5m2_widen(void *to, const void *from, int64_t count)
{
    single_bits *singles = to;
    const uint8 *bytes = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        singles[i] = float8_e5m2_widened(bytes[i]);
}

static inline void float8_e5m2_narrow(void *to, const void *from, int64_t count)
{
    uint8 *bytes = to;
    const single_bits *singles = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)float8_e5m2_narrowed(singles[i]);
}

#endif
