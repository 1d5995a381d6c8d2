/* half.c: float16 and bfloat16 to and from float32, in operations that every compiler vectorises. */
#include "plane/half.h"

#include <string.h>

/* Elements as they lie in a caller's memory: of any alignment, whatever the memory was declared as. */
typedef uint16_t __attribute__((aligned(1), may_alias)) half_bits;
typedef uint32_t __attribute__((aligned(1), may_alias)) single_bits;

#define SINGLE_INFINITY 0x7f800000u
#define HALF_INFINITY   0x7c00u
#define HALF_QUIET      0x0200u /* the bit of a float16 that makes a NaN quiet */
#define BFLOAT_QUIET    0x0040u /* that of a bfloat16 */

/* A float32 has 13 bits of fraction more than a float16 and counts its exponent from 112 lower. */
#define FRACTION_SHIFT 13
#define EXPONENT_SHIFT 23
#define BIAS           (112u << EXPONENT_SHIFT)
#define SMALLEST       (113u << EXPONENT_SHIFT) /* 2^-14, below which a float16 is subnormal */
#define TOO_GREAT      (143u << EXPONENT_SHIFT) /* 2^16, to which rounding itself takes what is just below */
#define ONE_HALF       0x3f000000u              /* 0.5, whose last bit is worth 2^-24, that of subnormals */

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

static inline uint32_t widen_float16(uint32_t half)
{
    uint32_t magnitude = (half & 0x7fff) << FRACTION_SHIFT;
    uint32_t normal = magnitude + BIAS;
    /* m * 2^-24 = (1 + m * 2^-10) * 2^-14 - 2^-14, where no operand is a subnormal float32: those are slow,
     * and a program may have told its processor to take them for 0. */
    uint32_t subnormal = bits_of(single_of(magnitude + SMALLEST) - single_of(SMALLEST));
    uint32_t special = magnitude | SINGLE_INFINITY;
    uint32_t wide = magnitude < (0x0400u << FRACTION_SHIFT) ? subnormal : normal;
    wide = magnitude >= (HALF_INFINITY << FRACTION_SHIFT) ? special : wide;
    return wide | (half & 0x8000) << 16;
}

static inline uint32_t narrow_float16(uint32_t single)
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

static inline uint32_t narrow_bfloat16(uint32_t single)
{
    uint32_t odd = single >> 16 & 1;
    uint32_t half = (single + 0x7fff + odd) >> 16;
    uint32_t nan = single >> 16 | BFLOAT_QUIET;
    return (single & 0x7fffffff) > SINGLE_INFINITY ? nan : half;
}

void half_widen(enum hvd_dtype dtype, void *to, const void *from, int64_t count)
{
    single_bits *singles = to;
    const half_bits *halves = from;
    if (dtype == HVD_FLOAT16) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            singles[i] = widen_float16(halves[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            singles[i] = (uint32_t)halves[i] << 16;
    }
}

void half_narrow(enum hvd_dtype dtype, void *to, const void *from, int64_t count)
{
    half_bits *halves = to;
    const single_bits *singles = from;
    if (dtype == HVD_FLOAT16) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            halves[i] = (uint16_t)narrow_float16(singles[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            halves[i] = (uint16_t)narrow_bfloat16(singles[i]);
    }
}
