/* kernels_real.h: the arithmetic of one type of real numbers: included once for each TYPE by kernels.c. By
 * itself it is empty. */
#ifdef TYPE

/* Only a NaN differs from itself; of two it is the left one. Of equals too, which may be zeros of two signs.
 */
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
