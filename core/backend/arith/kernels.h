/* kernels.h: the loops over elements, compiled for several kinds of processors. */
#ifndef BACKEND_ARITH_KERNELS_H
#define BACKEND_ARITH_KERNELS_H

#include "hvd.h"

/* out[i] = left[i] op right[i]; an average is a sum until it is divided. out may be left, right or both;
 * otherwise nothing overlaps. */
typedef void kernel_fold_f(enum hvd_op op, void *out, const void *left, const void *right, int64_t count);

/* out[i] = in[i] op number. out may be in; otherwise they do not overlap. */
typedef void kernel_map_f(void *out, const void *in, int64_t count, double number);

/* out[i] = (left[i] + right[i]) * number, as the two by themselves make it. out as in a fold. */
typedef void kernel_sum_scale_f(void *out, const void *left, const void *right, int64_t count, double number);

/* to[i] = from[i]. Nothing overlaps. */
typedef void kernel_convert_f(void *to, const void *from, int64_t count);

/* The arithmetic of one type of elements. */
struct arith {
    kernel_fold_f *fold;
    kernel_map_f *scale;  /* in[i] * number */
    kernel_map_f *divide; /* in[i] / number, which is a whole number > 0 */
    kernel_sum_scale_f *sum_scale;
};

/* One kind of processors, a target. All targets give the same bits; only of which NaN becomes of two nothing
 * is said. Pointers need no alignment, and may be NULL where count is 0. */
struct kernels {
    const char *name;
    /* By type. Half types have the arithmetic of float32. Bools have that of logic, which makes an element 0
     * or 1, and which numbers do not change. */
    struct arith arith[HVD_BOOL + 1];
    /* By type, of half types only. To float32, exactly; a NaN of float16 becomes a quiet one. And back,
     * rounded to nearest even, what is too great to infinity; a NaN becomes a quiet one that keeps the
     * leading bits of what it carries. */
    kernel_convert_f *widen[HVD_BOOL + 1];
    kernel_convert_f *narrow[HVD_BOOL + 1];
    /* Adasum: what reduce_dots and reduce_blend do. */
    void (*dots)(enum hvd_dtype dtype, const void *a, const void *b, int64_t count, double dots[3]);
    void (*blend)(enum hvd_dtype dtype, void *out, const void *a, const void *b, const double factors[2],
                  int64_t count);
};

/* Each is there where configure says so; plain runs everywhere. */
#define KERNELS_TARGETS 3
extern const struct kernels kernels_avx512, kernels_avx2, kernels_plain;

/* The [i]th of those that are there and that this processor and its system can run, from the fastest to
 * kernels_plain; then NULL. */
const struct kernels *kernels_usable(int i);

/* The fastest. */
const struct kernels *kernels_best(void);

#endif
