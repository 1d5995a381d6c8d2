/* kernels.h: the loops over elements, compiled for several targets. */
#ifndef BACKEND_ARITH_KERNELS_H
#define BACKEND_ARITH_KERNELS_H

#include "base/dtype.h"
#include "hvd.h"

/* out[i] = left[i] op right[i]; for an average, the sum. out may be left, right or both; otherwise nothing
 * overlaps. */
typedef void kernel_fold_f(enum hvd_op op, void *out, const void *left, const void *right, int64_t count);

/* out[i] = in[i] op number. out may be in; otherwise they do not overlap. */
typedef void kernel_map_f(void *out, const void *in, int64_t count, double number);

/* out[i] = (left[i] + right[i]) * number, rounded as a fold and a scale in turn would. out as in a fold. */
typedef void kernel_sum_scale_f(void *out, const void *left, const void *right, int64_t count, double number);

/* to[i] = from[i]. Nothing overlaps. */
typedef void kernel_convert_f(void *to, const void *from, int64_t count);

/* The arithmetic of one type of elements. */
struct arith {
    kernel_fold_f *fold;
    kernel_map_f *scale;  /* in[i] * number */
    kernel_map_f *divide; /* in[i] / number; number is an integer > 0 */
    kernel_sum_scale_f *sum_scale;
};

/* The kernels of one target, a kind of processor. All targets give the same bits, except that which of two
 * NaNs results is undefined. Pointers need no alignment, and may be NULL if count is 0. */
struct kernels {
    const char *name;
    /* By type. Narrow types have the arithmetic of float32. Bools have logic, whose results are 0 or 1, and
     * which scaling and dividing do not change. */
    struct arith arith[DTYPE_COUNT];
    /* By type, for narrow types only. widen converts to float32, exactly; a NaN other than of bfloat16
     * becomes quiet. narrow converts back, to nearest even. In half types a value that is too large becomes
     * infinity, and a NaN becomes quiet and keeps the leading bits of its payload; for float8 see narrow.h.
     */
    kernel_convert_f *widen[DTYPE_COUNT];
    kernel_convert_f *narrow[DTYPE_COUNT];
    /* Adasum, see reduce_dots and reduce_blend. */
    void (*dots)(enum hvd_dtype dtype, const void *a, const void *b, int64_t count, double dots[3]);
    void (*blend)(enum hvd_dtype dtype, void *out, const void *a, const void *b, const double factors[2],
                  int64_t count);
};

/* configure decides which of these are built; plain always is. */
#define KERNELS_TARGETS 3
extern const struct kernels kernels_avx512, kernels_avx2, kernels_plain;

/* For tests: the [i]th of the targets that were built and that this processor and its system can run, from
 * the fastest to kernels_plain; then NULL. */
const struct kernels *kernels_usable(int i);

/* The fastest. */
const struct kernels *kernels_best(void);

#endif
