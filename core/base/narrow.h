/* narrow.h: one element of a type narrower than float32 to and from that, as bits, for the C compiler and for
 * nvcc.
 *
 * Values are rounded to nearest even. In float16 and bfloat16 one that is too large becomes infinity, and a
 * NaN becomes quiet; on a CPU it keeps the leading bits of its payload. In float8, of which there are E4M3
 * and E5M2 of the Open Compute Project, one that is too large becomes the largest finite one, and so does
 * infinity, as in NCCL and in the saturating mode of the standard; a NaN keeps its sign. */
#ifndef BASE_NARROW_H
#define BASE_NARROW_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define NARROW_CODE static __device__ __forceinline__
#else
#define NARROW_CODE static inline
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

NARROW_CODE float single_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

NARROW_CODE uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

NARROW_CODE uint32_t bfloat16_widened(uint32_t half)
{
    return half << 16;
}

#ifdef __CUDA_ARCH__

/* GPUs have instructions for these. */
NARROW_CODE uint32_t float16_widened(uint32_t half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((uint16_t)half));
    return bits_of(value);
}

NARROW_CODE uint32_t float16_narrowed(uint32_t single)
{
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(single_of(single)));
    return half;
}

NARROW_CODE uint32_t bfloat16_narrowed(uint32_t single)
{
    uint16_t half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(single_of(single)));
    return half;
}

#else

NARROW_CODE uint32_t float16_widened(uint32_t half)
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

NARROW_CODE uint32_t float16_narrowed(uint32_t single)
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

NARROW_CODE uint32_t bfloat16_narrowed(uint32_t single)
{
    uint32_t odd = single >> 16 & 1;
    uint32_t half = (single + 0x7fff + odd) >> 16;
    uint32_t nan = single >> 16 | BFLOAT_QUIET;
    return (single & 0x7fffffff) > SINGLE_INFINITY ? nan : half;
}

#endif

/* ---- float8 ---- */

#define FLOAT8_NAN 0x7fu /* of E4M3 the only one; of E5M2 the one that conversions make */

/* E4M3 has no infinity: 0x7f is its NaN, and all below it are numbers. E5M2 is the upper half of a float16.
 */
#define E4M3_FRACTION 3
#define E4M3_BIAS     7
#define E4M3_LARGEST  0x7eu /* 448 */
#define E5M2_FRACTION 2
#define E5M2_BIAS     15
#define E5M2_LARGEST  0x7bu /* 57344 */

NARROW_CODE uint32_t float8_e4m3_widened(uint32_t byte)
{
    const uint32_t least = (128 - E4M3_BIAS) << EXPONENT_SHIFT; /* the least normal number */
    uint32_t magnitude = byte & 0x7f;
    uint32_t bits = magnitude << (EXPONENT_SHIFT - E4M3_FRACTION);
    uint32_t normal = bits + ((127 - E4M3_BIAS) << EXPONENT_SHIFT);
    /* no operand is a subnormal float32, as in float16_widened */
    uint32_t subnormal = bits_of(single_of(bits + least) - single_of(least));
    uint32_t wide = magnitude >> E4M3_FRACTION == 0 ? subnormal : normal;
    wide = magnitude == FLOAT8_NAN ? SINGLE_INFINITY | SINGLE_QUIET : wide;
    return wide | (byte & 0x80) << 24;
}

NARROW_CODE uint32_t float8_e5m2_widened(uint32_t byte)
{
    return float16_widened(byte << 8);
}

/* To a float8 with so many bits of fraction, this bias of the exponent, and this largest finite number. */
NARROW_CODE uint32_t float8_narrowed(uint32_t single, uint32_t fraction, uint32_t bias, uint32_t largest)
{
    const uint32_t shift = EXPONENT_SHIFT - fraction;
    const uint32_t least = (128 - bias) << EXPONENT_SHIFT;
    /* its last bit is worth as much as that of a subnormal float8 */
    const uint32_t unit = (151 - bias - fraction) << EXPONENT_SHIFT;
    uint32_t magnitude = single & 0x7fffffff;
    uint32_t odd = magnitude >> shift & 1;
    uint32_t below_half = (1u << (shift - 1)) - 1;
    uint32_t normal = (magnitude - ((127 - bias) << EXPONENT_SHIFT) + below_half + odd) >> shift;
    uint32_t subnormal = bits_of(single_of(magnitude) + single_of(unit)) - unit; /* the addition rounds */
    uint32_t byte = magnitude < least ? subnormal : normal;
    byte = byte > largest ? largest : byte;
    byte = magnitude > SINGLE_INFINITY ? FLOAT8_NAN : byte;
    return byte | (single >> 24 & 0x80);
}

NARROW_CODE uint32_t float8_e4m3_narrowed(uint32_t single)
{
    return float8_narrowed(single, E4M3_FRACTION, E4M3_BIAS, E4M3_LARGEST);
}

NARROW_CODE uint32_t float8_e5m2_narrowed(uint32_t single)
{
    return float8_narrowed(single, E5M2_FRACTION, E5M2_BIAS, E5M2_LARGEST);
}

#endif
