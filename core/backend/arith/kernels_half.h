/* kernels_half.h: float16 and bfloat16 to and from float32, for kernels.c: in operations that every compiler
 * vectorises, or by the processor's own conversions where they give the same bits. */
#ifndef BACKEND_ARITH_KERNELS_HALF_H
#define BACKEND_ARITH_KERNELS_HALF_H

#include <string.h>

#include "backend/arith/kernels_types.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

#define SINGLE_INFINITY 0x7f800000u
#define SINGLE_QUIET    0x00400000u /* the bit of a float32 that makes a NaN quiet */
#define HALF_INFINITY   0x7c00u
#define HALF_QUIET      0x0200u /* that of a float16 */
#define BFLOAT_QUIET    0x0040u /* that of a bfloat16 */

/* A float32 has 13 more bits of fraction than a float16, and its exponent bias is greater by 112. */
#define FRACTION_SHIFT 13
#define EXPONENT_SHIFT 23
#define BIAS           (112u << EXPONENT_SHIFT)
#define SMALLEST       (113u << EXPONENT_SHIFT) /* 2^-14, below which a float16 is subnormal */
#define TOO_GREAT      (143u << EXPONENT_SHIFT) /* 2^16; values just below round to it by themselves */
#define ONE_HALF       0x3f000000u /* 0.5: its last bit is worth 2^-24, as that of a float16 subnormal */

static inline float single_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline uint32_t float16_widened(uint32_t half)
{
    uint32_t magnitude = (half & 0x7fff) << FRACTION_SHIFT;
    uint32_t normal = magnitude + BIAS;
    /* m * 2^-24 = (1 + m * 2^-10) * 2^-14 - 2^-14, in which no operand is a subnormal float32: those are
     * slow, and the program may have set the processor to treat them as 0. */
    uint32_t subnormal = bits_of(single_of(magnitude + SMALLEST) - single_of(SMALLEST));
    uint32_t infinity = HALF_INFINITY << FRACTION_SHIFT;
    uint32_t special = magnitude | SINGLE_INFINITY | (magnitude > infinity ? SINGLE_QUIET : 0);
    uint32_t wide = magnitude < (0x0400u << FRACTION_SHIFT) ? subnormal : normal;
    wide = magnitude >= infinity ? special : wide;
    return wide | (half & 0x8000) << 16;
}

static inline uint32_t float16_narrowed(uint32_t single)
{
    uint32_t magnitude = single & 0x7fffffff;
    uint32_t odd = magnitude >> FRACTION_SHIFT & 1;
    uint32_t normal = (magnitude - BIAS + 0xfff + odd) >> FRACTION_SHIFT;
    uint32_t subnormal = bits_of(single_of(magnitude) + 0.5f) - ONE_HALF; /* the addition rounds */
    uint32_t nan = HALF_INFINITY | HALF_QUIET | (magnitude >> FRACTION_SHIFT & 0x3ff);
    uint32_t half = magnitude < SMALLEST ? subnormal : normal;
    half = magnitude >= TOO_GREAT ? HALF_INFINITY : half;
    half = magnitude > SINGLE_INFINITY ? nan : half;
    return half | (single >> 16 & 0x8000);
}

static inline uint32_t bfloat16_narrowed(uint32_t single)
{
    uint32_t odd = single >> 16 & 1;
    uint32_t half = (single + 0x7fff + odd) >> 16;
    uint32_t nan = single >> 16 | BFLOAT_QUIET;
    return (single & 0x7fffffff) > SINGLE_INFINITY ? nan : half;
}

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
        singles[i] = (uint32_t)halves[i] << 16;
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
