/* kernels_integer.h: the arithmetic of one type of whole numbers.
 *
 * Included once for each by kernels.c, which defines TYPE, the elements, their limits LEAST and MOST, and
 * DIVIDING, a type that holds quotients so closely that they are exact once cut off. By itself it is empty.
 */
#ifdef TYPE

/* Sums and products wrap around, also those of signed numbers, which would be undefined. The compiler sees
 * that no more bits are wanted than the elements have. */
static inline TYPE OF(folded)(enum hvd_op op, TYPE a, TYPE b)
{
    switch (op) {
    case HVD_MIN:
        return a < b ? a : b;
    case HVD_MAX:
        return a > b ? a : b;
    case HVD_PRODUCT:
        return (TYPE)((uint64_t)a * (uint64_t)b);
    default:
        return (TYPE)((uint64_t)a + (uint64_t)b);
    }
}

/* Towards zero, but no further than the limits. */
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

#include "backend/arith/kernels_loops.h"
#undef LEAST
#undef MOST
#undef DIVIDING
#endif
