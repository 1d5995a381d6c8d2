/* elements.h: a reference implementation of element-wise arithmetic, one element at a time, which shares no
 * code with the kernels that it is compared to. */
#ifndef TESTS_UNIT_ELEMENTS_H
#define TESTS_UNIT_ELEMENTS_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "hvd.h"

#define ELEMENT_DTYPES (HVD_FLOAT8_E5M2 + 1)

/* What sets the types of whole numbers, and those of real ones, apart. Bools are bytes here. */
struct element_type {
    int bytes;
    bool is_real, is_signed;
    int precision,
        least_exponent; /* real: bits of the fraction with the leading one; exponent of the least normal */
    uint64_t largest;   /* the bits of what becomes of values that are too large; 0: infinity */
};

static const struct element_type element_types[ELEMENT_DTYPES] = {
    [HVD_UINT8] = {.bytes = 1},
    [HVD_INT8] = {.bytes = 1, .is_signed = true},
    [HVD_UINT16] = {.bytes = 2},
    [HVD_INT16] = {.bytes = 2, .is_signed = true},
    [HVD_INT32] = {.bytes = 4, .is_signed = true},
    [HVD_INT64] = {.bytes = 8, .is_signed = true},
    [HVD_FLOAT16] = {.bytes = 2, .is_real = true, .precision = 11, .least_exponent = -14},
    [HVD_BFLOAT16] = {.bytes = 2, .is_real = true, .precision = 8, .least_exponent = -126},
    [HVD_FLOAT32] = {.bytes = 4, .is_real = true, .precision = 24, .least_exponent = -126},
    [HVD_FLOAT64] = {.bytes = 8, .is_real = true, .precision = 53, .least_exponent = -1022},
    [HVD_BOOL] = {.bytes = 1},
    [HVD_FLOAT8_E4M3] = {.bytes = 1, .is_real = true, .precision = 4, .least_exponent = -6, .largest = 0x7e},
    [HVD_FLOAT8_E5M2] = {.bytes = 1, .is_real = true, .precision = 3, .least_exponent = -14, .largest = 0x7b},
};

/* An element of any type. */
struct element {
    int64_t whole;
    double real;
};

static inline uint64_t element_bits(enum hvd_dtype dtype, const void *data, int64_t i)
{
    uint64_t bits = 0; /* little-endian, as every machine that hvd runs on */
    int bytes = element_types[dtype].bytes;
    memcpy(&bits, (const char *)data + i * bytes, (size_t)bytes);
    return bits;
}

/* The value of the bits of a real type: sign, exponent, fraction. */
static inline double real_of_bits(enum hvd_dtype dtype, uint64_t bits)
{
    const struct element_type *type = &element_types[dtype];
    uint64_t one = 1ull << (type->precision - 1); /* the least bit of the exponent */
    uint64_t sign = 1ull << (type->bytes * 8 - 1);
    uint64_t exponent = (bits & (sign - 1)) / one;
    uint64_t fraction = bits & (one - 1);
    double magnitude;
    if (exponent == (sign - 1) / one && (bits & (sign - 1)) > type->largest)
        magnitude = fraction != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp((double)fraction, type->least_exponent - type->precision + 1);
    else
        magnitude = ldexp((double)(one + fraction), type->least_exponent - type->precision + (int)exponent);
    return bits & sign ? -magnitude : magnitude;
}

/* The bits of the nearest value of a real type, of two the even one; one NaN for all. */
static inline uint64_t bits_of_real(enum hvd_dtype dtype, double value)
{
    const struct element_type *type = &element_types[dtype];
    uint64_t one = 1ull << (type->precision - 1);
    uint64_t sign = 1ull << (type->bytes * 8 - 1);
    uint64_t infinite = (sign - 1) / one * one;
    uint64_t largest = type->largest != 0 ? type->largest : infinite;
    uint64_t bits = largest;
    if (isnan(value)) /* E4M3 has numbers where other types have infinity */
        return largest > infinite ? largest + 1 : infinite | one / 2;
    double magnitude = fabs(value);
    if (magnitude == 0) {
        bits = 0;
    } else if (!isinf(value)) {
        int exponent = ilogb(magnitude);
        exponent = exponent > type->least_exponent ? exponent : type->least_exponent;
        uint64_t fraction = (uint64_t)rint(ldexp(magnitude, type->precision - 1 - exponent));
        /* The leading one of a normal fraction is one more in the exponent. */
        bits = (uint64_t)(exponent - type->least_exponent) * one + fraction;
        bits = bits < largest ? bits : largest;
    }
    return signbit(value) ? bits | sign : bits;
}

static inline struct element element_at(enum hvd_dtype dtype, const void *data, int64_t i)
{
    const struct element_type *type = &element_types[dtype];
    uint64_t bits = element_bits(dtype, data, i);
    if (type->is_real)
        return (struct element){.real = real_of_bits(dtype, bits)};
    int unused = 64 - type->bytes * 8;
    if (type->is_signed)
        return (struct element){.whole = (int64_t)(bits << unused) >> unused};
    return (struct element){.whole = dtype == HVD_BOOL ? bits != 0 : (int64_t)bits};
}

/* Whole numbers wrap around, real ones are rounded. */
static inline void element_put(enum hvd_dtype dtype, void *data, int64_t i, struct element value)
{
    const struct element_type *type = &element_types[dtype];
    uint64_t bits = type->is_real ? bits_of_real(dtype, value.real) : (uint64_t)value.whole;
    memcpy((char *)data + i * type->bytes, &bits, (size_t)type->bytes);
}

/* As what the arithmetic of a type is rounded. */
static inline double element_rounded(enum hvd_dtype dtype, double value)
{
    return dtype == HVD_FLOAT64 ? value : (double)(float)value;
}

/* A whole number towards zero, limited to the type's range. */
static inline int64_t element_limited(enum hvd_dtype dtype, long double value)
{
    const struct element_type *type = &element_types[dtype];
    int bits = type->bytes * 8;
    long double most = ldexpl(1, type->is_signed ? bits - 1 : bits) - 1;
    long double least = type->is_signed ? -most - 1 : 0;
    return (int64_t)fminl(fmaxl(truncl(value), least), most);
}

static inline struct element element_scaled(enum hvd_dtype dtype, struct element a, double factor)
{
    if (factor == 1 || dtype == HVD_BOOL)
        return a;
    if (!element_types[dtype].is_real) {
        volatile double product = (double)a.whole * factor;
        return (struct element){.whole = element_limited(dtype, (long double)product)};
    }
    volatile double product = a.real * element_rounded(dtype, factor);
    return (struct element){.real = element_rounded(dtype, product)};
}

static inline struct element element_divided(enum hvd_dtype dtype, struct element a, int ranks)
{
    return (struct element){.whole = a.whole / ranks, .real = element_rounded(dtype, a.real / ranks)};
}

static inline double real_folded(enum hvd_op op, double a, double b)
{
    bool nan = isnan(a) || isnan(b);
    switch (op) {
    case HVD_MIN:
        return nan ? NAN : b < a ? b : a;
    case HVD_MAX:
        return nan ? NAN : b > a ? b : a;
    case HVD_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

static inline int64_t whole_folded(enum hvd_op op, int64_t a, int64_t b)
{
    switch (op) {
    case HVD_MIN:
        return b < a ? b : a;
    case HVD_MAX:
        return b > a ? b : a;
    case HVD_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case HVD_BAND:
        return a & b;
    case HVD_BOR:
        return a | b;
    case HVD_BXOR:
        return a ^ b;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

static inline struct element element_folded(enum hvd_dtype dtype, enum hvd_op op, struct element a,
                                            struct element b)
{
    if (element_types[dtype].is_real) {
        volatile double folded = real_folded(op, a.real, b.real);
        return (struct element){.real = element_rounded(dtype, folded)};
    }
    if (dtype == HVD_BOOL && (op == HVD_SUM || op == HVD_MAX)) /* an element is 0 or 1 */
        return (struct element){.whole = a.whole | b.whole};
    return (struct element){.whole = whole_folded(op, a.whole, b.whole)};
}

/* Whether the bits are equal, or both are NaN. */
static inline bool element_same(enum hvd_dtype dtype, const void *a, const void *b, int64_t i)
{
    if (element_types[dtype].is_real && isnan(element_at(dtype, a, i).real))
        return isnan(element_at(dtype, b, i).real);
    return element_bits(dtype, a, i) == element_bits(dtype, b, i);
}

/* A small random generator with an explicit seed (xorshift64*), so that a failure can be reproduced. */
static inline uint64_t element_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Real numbers of many sizes and both signs, whose sums have other bits in another order; whole numbers of
 * all bits, or small; now and then bits of any kind: NaN, infinity, subnormal, the greatest. */
static inline void element_fill(enum hvd_dtype dtype, void *data, int64_t count, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = element_random(&state);
        struct element value = {.whole = (int64_t)bits};
        value.real = ldexp((double)(bits >> 12) - ldexp(1, 51), -51 + (int)(bits & 15) - 6);
        uint64_t kind = bits >> 4 & 15;
        if (kind == 0)
            memcpy((char *)data + i * element_types[dtype].bytes, &bits, (size_t)element_types[dtype].bytes);
        else if (kind == 1)
            element_put(dtype, data, i, (struct element){0, bits & 256 ? -0.0 : 0.0});
        else if (kind == 2)
            element_put(dtype, data, i, (struct element){INT64_MAX, bits & 256 ? -INFINITY : INFINITY});
        else if (kind < 8)
            element_put(dtype, data, i, (struct element){value.whole % 8, value.real});
        else
            element_put(dtype, data, i, value);
    }
}

#endif
