/* half.h: one float16 or bfloat16 to and from float32, as bits, for the C compiler and for nvcc.
 *
 * Values are rounded to nearest even; one that is too large becomes infinity. A NaN becomes quiet; on a CPU
 * it keeps the leading bits of its payload. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define HALF_CODE static __device__ __forceinline__
#else
#define HALF_CODE static inline
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

HALF_CODE float single_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

HALF_CODE uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

HALF_CODE uint32_t bfloat16_widened(uint32_t half)
{
    return half << 16;
}

#ifdef __CUDA_ARCH__

/* GPUs have instructions for these. */
HALF_CODE uint32_t float16_widened(uint32_t half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((uint16_t)half));
    return bits_of(value);
}

HALF_CODE uint32_t float16_narrowed(uint32_t single)
{
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(single_of(single)));
    return half;
}

HALF_CODE uint32_t bfloat16_narrowed(uint32_t single)
{
    uint16_t half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(single_of(single)));
    return half;
}

#else

HALF_CODE uint32_t float16_widened(uint32_t half)
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

HALF_CODE uint32_t float16_narrowed(uint32_t single)
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

HALF_CODE uint32_t bfloat16_narrowed(uint32_t single)
{
    uint32_t odd = single >> 16 & 1;
    uint32_t half = (single + 0x7fff + odd) >> 16;
    uint32_t nan = single >> 16 | BFLOAT_QUIET;
    return (single & 0x7fffffff) > SINGLE_INFINITY ? nan : half;
}

#endif
#endif
