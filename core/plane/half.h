/* half.h: the half types, float16 and bfloat16, to and from float32. */
#ifndef PLANE_HALF_H
#define PLANE_HALF_H

#include <stdbool.h>

#include "hvd.h"

/* Is [dtype] one of them? */
static inline bool dtype_is_half(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16;
}

/* to[i] = from[i], exactly: [from] of the half type [dtype], [to] of float32. Nothing overlaps; pointers need
 * no alignment. */
void half_widen(enum hvd_dtype dtype, void *to, const void *from, int64_t count);

/* The other way, rounded to nearest even, what is too great to infinity. A NaN becomes a quiet one that keeps
 * the leading bits of what it carries. */
void half_narrow(enum hvd_dtype dtype, void *to, const void *from, int64_t count);

#endif
