/* kernels.c: the kernels of one target. The build compiles this file once for each target, with its flags.
 *
 * Every loop is written once. Only the instructions that the compiler may choose differ, and TARGET, which
 * names the table. No other symbol may be visible outside, or one target would run the code of another. */
#include "backend/arith/kernels.h"

#include <stdbool.h>

#include "backend/arith/kernels_adasum.h"
#include "backend/arith/kernels_types.h"
#include "base/narrow.h"

#ifndef TARGET
#define TARGET plain
#endif

#define JOIN(left, right)   left##_##right
#define JOINED(left, right) JOIN(left, right)
#define QUOTE(word)         #word
#define QUOTED(word)        QUOTE(word)

/* The name of a function of TYPE: int32_fold. */
#define OF(name) JOINED(TYPE, name)

/* For quotients a float is precise enough up to 16 bits, a double up to 32, and both vectorise. */
#define TYPE     uint8
#define LEAST    0
#define MOST     UINT8_MAX
#define DIVIDING float
#include "backend/arith/kernels_integer.h"

#define TYPE     int8
#define LEAST    INT8_MIN
#define MOST     INT8_MAX
#define DIVIDING float
#include "backend/arith/kernels_integer.h"

#define TYPE     uint16
#define LEAST    0
#define MOST     UINT16_MAX
#define DIVIDING float
#include "backend/arith/kernels_integer.h"

#define TYPE     int16
#define LEAST    INT16_MIN
#define MOST     INT16_MAX
#define DIVIDING float
#include "backend/arith/kernels_integer.h"

#define TYPE     int32
#define LEAST    INT32_MIN
#define MOST     INT32_MAX
#define DIVIDING double
#include "backend/arith/kernels_integer.h"

#define TYPE     int64
#define LEAST    INT64_MIN
#define MOST     INT64_MAX
#define DIVIDING int64_t
#include "backend/arith/kernels_integer.h"

#define TYPE float32
#include "backend/arith/kernels_real.h"

#define TYPE float64
#include "backend/arith/kernels_real.h"

/* Logic: any byte other than 0 is true. */
static inline boolean boolean_folded(enum hvd_op op, boolean a, boolean b)
{
    bool all = op == HVD_MIN || op == HVD_PRODUCT || op == HVD_BAND;
    if (op == HVD_BXOR)
        return (a != 0) ^ (b != 0);
    return all ? (a != 0) & (b != 0) : (a | b) != 0;
}

static inline boolean boolean_scaled(boolean a, double factor)
{
    (void)factor;
    return a;
}

static inline boolean boolean_divided(boolean a, double number)
{
    (void)number;
    return a;
}

#define TYPE boolean
#define BITWISE
#include "backend/arith/kernels_loops.h"
#undef BITWISE

#define TYPE float16
#define BITS uint16
#include "backend/arith/kernels_narrow.h"

#define TYPE bfloat16
#define BITS uint16
#include "backend/arith/kernels_narrow.h"

#define TYPE float8_e4m3
#define BITS uint8
#include "backend/arith/kernels_narrow.h"

#define TYPE float8_e5m2
#define BITS uint8
#include "backend/arith/kernels_narrow.h"

#include "backend/arith/kernels_f16c.h"

#define ARITH(type)                                                                    \
    {                                                                                  \
        JOIN(type, fold), JOIN(type, scale), JOIN(type, divide), JOIN(type, sum_scale) \
    }

#ifdef __F16C__
#define FLOAT16(name) float16_##name##_f16c
#else
#define FLOAT16(name) float16_##name
#endif

const struct kernels JOINED(kernels, TARGET) = {
    .name = QUOTED(TARGET),
    .arith =
        {
            [HVD_UINT8] = ARITH(uint8),
            [HVD_INT8] = ARITH(int8),
            [HVD_UINT16] = ARITH(uint16),
            [HVD_INT16] = ARITH(int16),
            [HVD_INT32] = ARITH(int32),
            [HVD_INT64] = ARITH(int64),
            [HVD_FLOAT32] = ARITH(float32),
            [HVD_FLOAT64] = ARITH(float64),
            [HVD_FLOAT16] = ARITH(float32),
            [HVD_BFLOAT16] = ARITH(float32),
            [HVD_BOOL] = ARITH(boolean),
            [HVD_FLOAT8_E4M3] = ARITH(float32),
            [HVD_FLOAT8_E5M2] = ARITH(float32),
        },
    .widen =
        {
            [HVD_FLOAT16] = FLOAT16(widen),
            [HVD_BFLOAT16] = bfloat16_widen,
            [HVD_FLOAT8_E4M3] = float8_e4m3_widen,
            [HVD_FLOAT8_E5M2] = float8_e5m2_widen,
        },
    .narrow =
        {
            [HVD_FLOAT16] = FLOAT16(narrow),
            [HVD_BFLOAT16] = bfloat16_narrow,
            [HVD_FLOAT8_E4M3] = float8_e4m3_narrow,
            [HVD_FLOAT8_E5M2] = float8_e5m2_narrow,
        },
    .dots = adasum_dots,
    .blend = adasum_blend,
};
