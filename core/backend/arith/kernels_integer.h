/* kernels_integer.h: the arithmetic of one integer type.
 *
 * kernels.c includes it once for each, after defining TYPE, its limits LEAST and MOST, and DIVIDING, a type
 * precise enough that a truncated quotient is exact. By itself this file is empty. */
#ifdef TYPE

/* Sums and products wrap around, also for signed types, where overflow would be undefined. The compiler sees
 * that only the bits of TYPE are used. */
static inline TYPE OF(folded)(enum hvd_op op, TYPE a, TYPE b)
{
    switch (op) {
    case HVD_MIN:
        return a < b ? a : b;
    case HVD_MAX:
        return a > b ? a : b;
    case HVD_PRODUCT:
        return (TYPE)((uint64_t)a * (uint64_t)b);
    case HVD_BAND:
        return a & b;
    case HVD_BOR:
        return a | b;
    case HVD_BXOR:
        return a ^ b;
    default:
        return (TYPE)((uint64_t)a + (uint64_t)b);
    }
}

/* Truncated towards zero, and clamped to the limits. */
static inline TYPE OF(scaled)(TYPE a, double factor)
{
    double product = (double)a * factor;
    if (product >= (double)MOST)
        return MOST;
    if (product <= (double)LEAST)
        return LEAST;
    return (TYPE)product;
}

static inline TYPE OF(divided)(TYPE a, double number)
{
    return (TYPE)((DIVIDING)a / (DIVIDING)number);
}

#define BITWISE
#include "backend/arith/kernels_loops.h"
#undef BITWISE
#undef LEAST
#undef MOST
#undef DIVIDING
#endif
