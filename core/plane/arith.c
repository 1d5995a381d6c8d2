/* arith.c: the arithmetic of each type of elements, one line for each operation. */
#include "plane/arith.h"

/* Elements as they lie in a caller's memory: of any alignment, whatever the memory was declared as. */
#define ELEMENT __attribute__((aligned(1), may_alias))
typedef uint8_t ELEMENT uint8;
typedef int8_t ELEMENT int8;
typedef uint16_t ELEMENT uint16;
typedef int16_t ELEMENT int16;
typedef int32_t ELEMENT int32;
typedef int64_t ELEMENT int64;
typedef float ELEMENT float32;
typedef double ELEMENT float64;
#undef ELEMENT

/* "omp simd" promises the compiler that no iteration reads what an earlier one wrote, which holds where out
 * is one of the operands too; -fopenmp-simd makes it vectorise at any level of optimisation. It never
 * reorders anything: each element is one operation. */

/* The loop that makes [expression] of a, an element on the left, and b, the one on the right. */
#define FOLD(name, type, expression)                                                         \
    static void name##_##type(void *out, const void *left, const void *right, int64_t count) \
    {                                                                                        \
        type *to = out;                                                                      \
        const type *as = left, *bs = right;                                                  \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                              \
        {                                                                                    \
            type a = as[i], b = bs[i];                                                       \
            to[i] = (type)(expression);                                                      \
        }                                                                                    \
    }

/* The loop that makes [expression] of a, an element, and the number. */
#define MAP(name, type, expression)                                                    \
    static void name##_##type(void *out, const void *in, int64_t count, double number) \
    {                                                                                  \
        type *to = out;                                                                \
        const type *as = in;                                                           \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                        \
        {                                                                              \
            type a = as[i];                                                            \
            to[i] = (type)(expression);                                                \
        }                                                                              \
    }

/* [product]: what multiplies. */
#define ARITH(type)                               \
    static const struct arith arith_##type = {    \
        .fold = {[HVD_SUM] = sum_##type,          \
                 [HVD_AVERAGE] = sum_##type,      \
                 [HVD_MIN] = min_##type,          \
                 [HVD_MAX] = max_##type,          \
                 [HVD_PRODUCT] = product_##type}, \
        .scale = scale_##type,                    \
        .divide = divide_##type,                  \
    }

/* Integers wrap around: they are added and multiplied as [wide], which is unsigned and no narrower than int,
 * as elsewhere an overflow would be undefined. [quotient]: of a and number, towards zero. */
#define INTEGER(type, wide, least, most, quotient)      \
    static inline type limited_##type(double value)     \
    {                                                   \
        if (value >= (double)(most))                    \
            return most;                                \
        if (value <= (double)(least))                   \
            return least;                               \
        return (type)value;                             \
    }                                                   \
    FOLD(sum, type, (wide)a + (wide)b)                  \
    FOLD(product, type, (wide)a *(wide)b)               \
    FOLD(min, type, a < b ? a : b)                      \
    FOLD(max, type, a > b ? a : b)                      \
    MAP(scale, type, limited_##type((double)a *number)) \
    MAP(divide, type, quotient)                         \
    ARITH(type)

/* A double holds 32 bits and their quotients closely enough that truncating it is exact, and it vectorises.
 */
INTEGER(uint8, uint32_t, 0, UINT8_MAX, (double)a / number);
INTEGER(int8, uint32_t, INT8_MIN, INT8_MAX, (double)a / number);
INTEGER(uint16, uint32_t, 0, UINT16_MAX, (double)a / number);
INTEGER(int16, uint32_t, INT16_MIN, INT16_MAX, (double)a / number);
INTEGER(int32, uint32_t, INT32_MIN, INT32_MAX, (double)a / number);
INTEGER(int64, uint64_t, INT64_MIN, INT64_MAX, a / (int64_t)number);

/* Only a NaN differs from itself; of two it is the left one. Of equals too, which may be zeros of two signs.
 */
#define FLOATING(type)                             \
    FOLD(sum, type, a + b)                         \
    FOLD(product, type, a *b)                      \
    FOLD(min, type, ((a <= b) | (a != a)) ? a : b) \
    FOLD(max, type, ((a >= b) | (a != a)) ? a : b) \
    MAP(scale, type, a *(type)number)              \
    MAP(divide, type, a / (type)number)            \
    ARITH(type)

FLOATING(float32);
FLOATING(float64);

FOLD(or, uint8, (a | b) != 0)
FOLD(and, uint8, (a != 0) & (b != 0))

static const struct arith arith_bool = {
    .fold = {[HVD_SUM] = or_uint8, [HVD_MIN] = and_uint8, [HVD_MAX] = or_uint8, [HVD_PRODUCT] = and_uint8},
};

#undef FLOATING
#undef INTEGER
#undef ARITH
#undef MAP
#undef FOLD

static const struct arith *const ariths[] = {
    [HVD_INT32] = &arith_int32,      [HVD_INT64] = &arith_int64, [HVD_FLOAT32] = &arith_float32,
    [HVD_FLOAT64] = &arith_float64,  [HVD_UINT8] = &arith_uint8, [HVD_INT8] = &arith_int8,
    [HVD_UINT16] = &arith_uint16,    [HVD_INT16] = &arith_int16, [HVD_FLOAT16] = &arith_float32,
    [HVD_BFLOAT16] = &arith_float32, [HVD_BOOL] = &arith_bool,
};

const struct arith *arith_of(enum hvd_dtype dtype)
{
    return ariths[dtype];
}
