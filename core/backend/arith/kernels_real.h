/* kernels_real.h: the arithmetic of one floating-point type. kernels.c includes it once for each TYPE; by
 * itself this file is empty. */
#ifdef TYPE

/* Minimum and maximum: a NaN (only that differs from itself) wins. Of two NaNs or two equal values, such as
 * zeros of different signs, the result is the left one. */
static inline TYPE OF(folded)(enum hvd_op op, TYPE a, TYPE b)
{
    switch (op) {
    case HVD_MIN:
        return ((a <= b) | (a != a)) ? a : b;
    case HVD_MAX:
        return ((a >= b) | (a != a)) ? a : b;
    case HVD_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

static inline TYPE OF(scaled)(TYPE a, double factor)
{
    return a * (TYPE)factor;
}

static inline TYPE OF(divided)(TYPE a, double number)
{
    return a / (TYPE)number;
}

#include "backend/arith/kernels_loops.h"
#endif
