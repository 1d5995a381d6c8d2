/* kernels_half.h: vectors of float16 and bfloat16 to and from float32, for kernels.c: in operations that
 * every compiler vectorises, or by the processor's own conversions where they give the same bits. */
#ifndef BACKEND_ARITH_KERNELS_HALF_H
#define BACKEND_ARITH_KERNELS_HALF_H

#include "backend/arith/kernels_types.h"
#include "base/narrow.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

/* By the processor's own instructions where it has them: they round to nearest even and treat NaN as above,
 * whatever rounding mode the program has set. */
static inline void float16_widen(void *to, const void *from, int64_t count)
{
    single_bits *singles = to;
    const half_bits *halves = from;
    int64_t done = 0;
#ifdef __F16C__
    for (; count - done >= 8; done += 8)
        _mm256_storeu_ps((float *)to + done, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(halves + done))));
#endif
#pragma omp simd
    for (int64_t i = done; i < count; i++)
        singles[i] = float16_widened(halves[i]);
}

static inline void float16_narrow(void *to, const void *from, int64_t count)
{
    half_bits *halves = to;
    const single_bits *singles = from;
    int64_t done = 0;
#ifdef __F16C__
    for (; count - done >= 8; done += 8)
        _mm_storeu_si128((void *)(halves + done), _mm256_cvtps_ph(_mm256_loadu_ps((const float *)from + done),
                                                                  _MM_FROUND_TO_NEAREST_INT));
#endif
#pragma omp simd
    for (int64_t i = done; i < count; i++)
        halves[i] = (uint16_t)float16_narrowed(singles[i]);
}

static inline void bfloat16_widen(void *to, const void *from, int64_t count)
{
    single_bits *singles = to;
    const half_bits *halves = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        singles[i] = bfloat16_widened(halves[i]);
}

/* AVX-512 has an instruction for this, but it treats subnormals as 0. */
static inline void bfloat16_narrow(void *to, const void *from, int64_t count)
{
    half_bits *halves = to;
    const single_bits *singles = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        halves[i] = (uint16_t)bfloat16_narrowed(singles[i]);
}

#endif
