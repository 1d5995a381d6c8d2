/* arith.h: the arithmetic of each type of elements, as loops over vectors of them. */
#ifndef PLANE_ARITH_H
#define PLANE_ARITH_H

#include "hvd.h"

/* out[i] = left[i] op right[i]. out may be left, right or both; otherwise nothing overlaps. */
typedef void arith_fold_f(void *out, const void *left, const void *right, int64_t count);

/* out[i] = in[i] op number. out may be in; otherwise they do not overlap. */
typedef void arith_map_f(void *out, const void *in, int64_t count, double number);

/* Pointers need no alignment. */
struct arith {
    arith_fold_f *fold[HVD_PRODUCT + 1]; /* by enum hvd_op; an average is a sum until it is divided */
    arith_map_f *scale;                  /* in[i] * number */
    arith_map_f *divide;                 /* in[i] / number, which is a whole number > 0 */
};

/* That of elements of [dtype]. Half types have the arithmetic of float32, bools that of logic: nothing scales
 * or divides them, and an or makes any element 0 or 1. */
const struct arith *arith_of(enum hvd_dtype dtype);

#endif
