/* reference.c: computes results in one process from all ranks' inputs, as plainly as possible. */
#include "reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Random numbers (splitmix64) ----------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

struct random_stream random_stream_of(uint64_t seed, uint64_t what, uint64_t which)
{
    return (struct random_stream){mix(mix(mix(seed) ^ what) ^ which)};
}

uint64_t random_stream_next(struct random_stream *draws)
{
    draws->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(draws->state);
}

int64_t random_stream_below(struct random_stream *draws, int64_t limit)
{
    return limit == 0 ? 0 : (int64_t)(random_stream_next(draws) % (uint64_t)limit);
}

bool random_stream_chance(struct random_stream *draws, int percent)
{
    return random_stream_below(draws, 100) < percent;
}

/* ---- Types --------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t bytes;
    bool is_float;
} types[REFERENCE_DTYPES] = {
    [HVD_INT32] = {"int32", 4, false},
    [HVD_INT64] = {"int64", 8, false},
    [HVD_FLOAT32] = {"float32", 4, true},
    [HVD_FLOAT64] = {"float64", 8, true},
    [HVD_UINT8] = {"uint8", 1, false},
    [HVD_INT8] = {"int8", 1, false},
    [HVD_UINT16] = {"uint16", 2, false},
    [HVD_INT16] = {"int16", 2, false},
    [HVD_FLOAT16] = {"float16", 2, true},
    [HVD_BFLOAT16] = {"bfloat16", 2, true},
    [HVD_BOOL] = {"bool", 1, false},
    [HVD_FLOAT8_E4M3] = {"float8_e4m3fn", 1, true},
    [HVD_FLOAT8_E5M2] = {"float8_e5m2", 1, true},
};

size_t reference_bytes(enum hvd_dtype dtype)
{
    return types[dtype].bytes;
}

const char *reference_dtype(enum hvd_dtype dtype)
{
    return types[dtype].name;
}

bool reference_is_float(enum hvd_dtype dtype)
{
    return types[dtype].is_float;
}

const char *reference_op(enum hvd_op op)
{
    static const char *const names[] = {"sum", "average", "min", "max", "product", "adasum"};
    return names[op];
}

/* ---- Floating point: every number is a double, which represents all of these types exactly ---- */

/* Round [x] to [precision] bits of mantissa, none of which is below 2^lowest; infinite above [largest]. */
static double round_bits(double x, int precision, int lowest, double largest)
{
    int exponent = 0;
    if (!isfinite(x) || x == 0)
        return x;
    frexp(x, &exponent);
    int quantum = exponent - precision > lowest ? exponent - precision : lowest;
    double rounded = ldexp(rint(ldexp(x, -quantum)), quantum);
    if (fabs(rounded) > largest)
        return copysign(INFINITY, x);
    return copysign(rounded, x);
}

/* The same, but for what is too large, which becomes [largest]. */
static double round_saturating(double x, int precision, int lowest, double largest)
{
    double rounded = round_bits(x, precision, lowest, INFINITY);
    return fabs(rounded) > largest ? copysign(largest, x) : rounded;
}

/* The number of that type that is nearest to [x]. */
static double round_to(enum hvd_dtype dtype, double x)
{
    switch (dtype) {
    case HVD_FLOAT16:
        return round_bits(x, 11, -24, 65504);
    case HVD_BFLOAT16:
        return round_bits(x, 8, -133, 0x1.fep127);
    case HVD_FLOAT8_E4M3:
        return round_saturating(x, 4, -9, 448);
    case HVD_FLOAT8_E5M2:
        return round_saturating(x, 3, -16, 57344);
    case HVD_FLOAT32:
        return (double)(float)x;
    default:
        return x;
    }
}

/* How a type narrower than float32 has its sign, exponent and fraction, from the left. */
struct narrow {
    int bits, fraction, bias;
    bool has_infinity;
};

static struct narrow narrow_of(enum hvd_dtype dtype)
{
    switch (dtype) {
    case HVD_FLOAT16:
        return (struct narrow){16, 10, 15, true};
    case HVD_BFLOAT16:
        return (struct narrow){16, 7, 127, true};
    case HVD_FLOAT8_E4M3:
        return (struct narrow){8, 3, 7, false};
    case HVD_FLOAT8_E5M2:
        return (struct narrow){8, 2, 15, true};
    default:
        return (struct narrow){0};
    }
}

/* The bits of [x], which the type holds exactly. All ones are a NaN in each of them. */
static unsigned narrow_bits(struct narrow narrow, double x)
{
    unsigned sign_bit = 1U << (narrow.bits - 1);
    unsigned sign = signbit(x) ? sign_bit : 0;
    int exponent = 0;
    if (isnan(x))
        return sign | (sign_bit - 1);
    if (isinf(x))
        return sign | (sign_bit - (1U << narrow.fraction));
    if (x == 0)
        return sign;
    double mantissa = frexp(fabs(x), &exponent) * 2; /* from 1 to 2 */
    exponent += narrow.bias - 1;
    if (exponent <= 0)
        return sign | (unsigned)ldexp(mantissa, narrow.fraction + exponent - 1);
    return sign | (unsigned)exponent << narrow.fraction | (unsigned)ldexp(mantissa - 1, narrow.fraction);
}

static double narrow_value(struct narrow narrow, unsigned bits)
{
    unsigned sign_bit = 1U << (narrow.bits - 1);
    unsigned magnitude = bits & (sign_bit - 1);
    unsigned infinity = narrow.has_infinity ? sign_bit - (1U << narrow.fraction) : sign_bit;
    int exponent = (int)(magnitude >> narrow.fraction);
    double part = ldexp(magnitude & ((1U << narrow.fraction) - 1), -narrow.fraction);
    double sign = bits & sign_bit ? -1 : 1;
    if (magnitude == infinity)
        return sign * INFINITY;
    if (magnitude > infinity || magnitude == sign_bit - 1)
        return NAN;
    return sign * (exponent == 0 ? ldexp(part, 1 - narrow.bias) : ldexp(1 + part, exponent - narrow.bias));
}

double reference_value(enum hvd_dtype dtype, const void *data, int64_t i)
{
    struct narrow narrow = narrow_of(dtype);
    if (narrow.bits == 8)
        return narrow_value(narrow, ((const uint8_t *)data)[i]);
    if (narrow.bits == 16)
        return narrow_value(narrow, ((const uint16_t *)data)[i]);
    return dtype == HVD_FLOAT32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void put_value(enum hvd_dtype dtype, void *data, int64_t i, double x)
{
    struct narrow narrow = narrow_of(dtype);
    if (narrow.bits == 8)
        ((uint8_t *)data)[i] = (uint8_t)narrow_bits(narrow, round_to(dtype, x));
    else if (narrow.bits == 16)
        ((uint16_t *)data)[i] = (uint16_t)narrow_bits(narrow, round_to(dtype, x));
    else if (dtype == HVD_FLOAT32)
        ((float *)data)[i] = (float)x;
    else
        ((double *)data)[i] = x;
}

/* ---- Integers: every number is an int64 ---- */

static int64_t integer_value(enum hvd_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case HVD_INT32:
        return ((const int32_t *)data)[i];
    case HVD_UINT8:
        return ((const uint8_t *)data)[i];
    case HVD_INT8:
        return ((const int8_t *)data)[i];
    case HVD_UINT16:
        return ((const uint16_t *)data)[i];
    case HVD_INT16:
        return ((const int16_t *)data)[i];
    case HVD_BOOL:
        return ((const uint8_t *)data)[i] != 0;
    default:
        return ((const int64_t *)data)[i];
    }
}

static void put_integer(enum hvd_dtype dtype, void *data, int64_t i, int64_t x)
{
    switch (reference_bytes(dtype)) {
    case 1:
        ((uint8_t *)data)[i] = (uint8_t)x;
        break;
    case 2:
        ((uint16_t *)data)[i] = (uint16_t)x;
        break;
    case 4:
        ((uint32_t *)data)[i] = (uint32_t)x;
        break;
    default:
        ((int64_t *)data)[i] = x;
        break;
    }
}

/* [x] converted to that type, modulo its range. */
static int64_t wrap(enum hvd_dtype dtype, int64_t x)
{
    int64_t one = 0;
    put_integer(dtype, &one, 0, x);
    return integer_value(dtype, &one, 0);
}

static int64_t scale_integer(enum hvd_dtype dtype, int64_t x, double factor)
{
    static const struct {
        int64_t low, high;
    } ranges[REFERENCE_DTYPES] = {
        [HVD_INT32] = {INT32_MIN, INT32_MAX}, [HVD_INT64] = {INT64_MIN, INT64_MAX},
        [HVD_UINT8] = {0, UINT8_MAX},         [HVD_INT8] = {INT8_MIN, INT8_MAX},
        [HVD_UINT16] = {0, UINT16_MAX},       [HVD_INT16] = {INT16_MIN, INT16_MAX},
    };
    if (factor == 1 || dtype == HVD_BOOL)
        return x;
    double scaled = (double)x * factor;
    if (scaled <= (double)ranges[dtype].low)
        return ranges[dtype].low;
    if (scaled >= (double)ranges[dtype].high)
        return ranges[dtype].high;
    return (int64_t)scaled;
}

/* ---- Values -------------------------------------------------------------------------------------------- */

static double wild(uint64_t bits)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, 0x1p-149, 65504, 0x1.fep127};
    if (bits % 64 == 0)
        return special[bits / 64 % (sizeof(special) / sizeof(special[0]))];
    return ldexp((double)(bits >> 12) - 0x1p51, -52 + (int)(bits & 15));
}

void reference_fill(enum hvd_dtype dtype, uint64_t key, bool tame, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = mix(key + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15));
        if (types[dtype].is_float)
            put_value(dtype, data, i, tame ? (double)(bits >> 11) * 0x1p-52 - 1 : wild(bits));
        else if (dtype == HVD_BOOL) /* also bytes other than 1, which count as true too */
            put_integer(dtype, data, i,
                        (bits & 1) == 0   ? 0
                        : (bits & 6) == 0 ? (int64_t)(bits >> 56 | 1)
                                          : 1);
        else
            put_integer(dtype, data, i, (bits & 1) != 0 ? (int64_t)bits : (int64_t)(bits >> 32 & 15) - 4);
    }
}

bool reference_same(enum hvd_dtype dtype, const void *a, const void *b, bool zeros)
{
    if (memcmp(a, b, types[dtype].bytes) == 0)
        return true;
    if (!types[dtype].is_float)
        return false;
    double x = reference_value(dtype, a, 0);
    double y = reference_value(dtype, b, 0);
    return (isnan(x) && isnan(y)) || (zeros && x == 0 && y == 0);
}

void reference_write(enum hvd_dtype dtype, const void *element, char *text, size_t text_bytes)
{
    uint64_t bits = 0;
    if (!types[dtype].is_float) {
        uint8_t byte = *(const uint8_t *)element;
        snprintf(text, text_bytes, "%" PRId64, dtype == HVD_BOOL ? byte : integer_value(dtype, element, 0));
        return;
    }
    if (types[dtype].bytes == 1)
        bits = *(const uint8_t *)element;
    else if (types[dtype].bytes == 2)
        bits = *(const uint16_t *)element;
    else if (types[dtype].bytes == 4)
        bits = *(const uint32_t *)element;
    else
        bits = *(const uint64_t *)element;
    snprintf(text, text_bytes, "%.17g (0x%0*" PRIx64 ")", reference_value(dtype, element, 0),
             (int)types[dtype].bytes * 2, bits);
}

/* ---- Reductions ---------------------------------------------------------------------------------------- */

static int64_t combine_integers(enum hvd_op op, int64_t a, int64_t b)
{
    switch (op) {
    case HVD_MIN:
        return a < b ? a : b;
    case HVD_MAX:
        return a > b ? a : b;
    case HVD_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

static void reduce_integer(const struct reference_reduction *reduction, const void *const *inputs,
                           void *result, int64_t i)
{
    enum hvd_dtype dtype = reduction->dtype;
    int64_t all = 0;
    for (int r = 0; r < reduction->ranks; r++) {
        int64_t one = inputs[r] == NULL ? 0 : integer_value(dtype, inputs[r], i);
        one = scale_integer(dtype, one, reduction->prescale);
        all = r == 0 ? one : wrap(dtype, combine_integers(reduction->op, all, one));
    }
    if (reduction->op == HVD_AVERAGE)
        all /= reduction->ranks;
    put_integer(dtype, result, i, scale_integer(dtype, all, reduction->postscale));
}

static double combine(enum hvd_op op, double a, double b)
{
    switch (op) {
    case HVD_MIN:
        return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    case HVD_MAX:
        return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    case HVD_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

/* Multiply by a factor that is rounded to the same type. */
static double scale(enum hvd_dtype dtype, double x, double factor)
{
    return factor == 1 ? x : round_to(dtype, x * round_to(dtype, factor));
}

/* Narrow types are summed in float32 and rounded once. Compressed tensors are summed in float32 too, but
 * rounded each time that they travel. */
static void reduce_float(const struct reference_reduction *reduction, const void *const *inputs, void *result,
                         int64_t i)
{
    enum hvd_dtype partial = reduction->dtype == HVD_FLOAT64 ? HVD_FLOAT64 : HVD_FLOAT32;
    enum hvd_dtype travels = reduction->wire == HVD_WIRE_FLOAT16    ? HVD_FLOAT16
                             : reduction->wire == HVD_WIRE_BFLOAT16 ? HVD_BFLOAT16
                                                                    : partial;
    double all = 0;
    for (int r = 0; r < reduction->ranks; r++) {
        double one = inputs[r] == NULL ? 0 : reference_value(reduction->dtype, inputs[r], i);
        one = scale(partial, round_to(travels, one), reduction->prescale);
        all = r == 0 ? one : round_to(partial, combine(reduction->op, all, one));
        all = round_to(travels, all);
    }
    if (reduction->op == HVD_AVERAGE)
        all = round_to(partial, all / reduction->ranks);
    all = scale(partial, all, reduction->postscale);
    put_value(reduction->dtype, result, i, round_to(travels, all));
}

void reference_reduce(const struct reference_reduction *reduction, const void *const *inputs, void *result,
                      int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (types[reduction->dtype].is_float)
            reduce_float(reduction, inputs, result, i);
        else
            reduce_integer(reduction, inputs, result, i);
    }
}

/* ---- Adasum -------------------------------------------------------------------------------------------- */

/* Replace [a] by the Adasum of [a] and [b]. A vector of zeros changes nothing. */
static void adasum_pair(double *a, const double *b, int64_t count)
{
    double aa = 0;
    double bb = 0;
    double ab = 0;
    for (int64_t i = 0; i < count; i++) {
        aa += a[i] * a[i];
        bb += b[i] * b[i];
        ab += a[i] * b[i];
    }
    double of_a = aa == 0 ? 1 : 1 - ab / (2 * aa);
    double of_b = bb == 0 ? 1 : 1 - ab / (2 * bb);
    for (int64_t i = 0; i < count; i++)
        a[i] = of_a * a[i] + of_b * b[i];
}

void reference_adasum(const struct reference_reduction *reduction, const void *const *inputs, double *result,
                      int64_t count)
{
    int ranks = reduction->ranks;
    double *vectors = calloc((size_t)ranks * (size_t)count + 1, sizeof(*vectors));
    for (int r = 0; r < ranks; r++) {
        for (int64_t i = 0; i < count && inputs[r] != NULL; i++)
            vectors[r * count + i] = reference_value(reduction->dtype, inputs[r], i) * reduction->prescale;
    }
    for (int step = 1; step < ranks; step *= 2) {
        for (int r = 0; r + step < ranks; r += 2 * step)
            adasum_pair(&vectors[r * count], &vectors[(r + step) * count], count);
    }
    for (int64_t i = 0; i < count; i++)
        result[i] = vectors[i] * reduction->postscale;
    free(vectors);
}

double reference_tolerance(enum hvd_dtype dtype)
{
    switch (dtype) {
    case HVD_FLOAT16:
        return 0x1p-9;
    case HVD_BFLOAT16:
        return 0x1p-6;
    case HVD_FLOAT8_E4M3:
        return 0x1p-2;
    case HVD_FLOAT8_E5M2:
        return 0x1p-1;
    case HVD_FLOAT32:
        return 0x1p-18;
    default:
        return 0x1p-44;
    }
}
