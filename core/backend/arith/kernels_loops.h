/* kernels_loops.h: the loops over elements of one type.
 *
 * Included once for each TYPE, after the operations on single elements: OF(folded), OF(scaled) and
 * OF(divided). BITWISE: these know the bitwise operations. By itself this file is empty. */
#ifdef TYPE

/* "omp simd" promises the compiler that no iteration reads what an earlier one wrote, which also holds if out
 * is one of the operands; -fopenmp-simd makes it vectorise at any optimisation level. No rounding changes, as
 * each element is an operation of its own. */

/* One loop for each operation: inlined, so that [op] is a constant. */
static inline __attribute__((always_inline)) void OF(fold_by)(enum hvd_op op, TYPE *out, const TYPE *left,
                                                              const TYPE *right, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = OF(folded)(op, left[i], right[i]);
}

static void OF(fold)(enum hvd_op op, void *out, const void *left, const void *right, int64_t count)
{
    switch (op) {
    case HVD_MIN:
        OF(fold_by)(HVD_MIN, out, left, right, count);
        break;
    case HVD_MAX:
        OF(fold_by)(HVD_MAX, out, left, right, count);
        break;
    case HVD_PRODUCT:
        OF(fold_by)(HVD_PRODUCT, out, left, right, count);
        break;
#ifdef BITWISE
    case HVD_BAND:
        OF(fold_by)(HVD_BAND, out, left, right, count);
        break;
    case HVD_BOR:
        OF(fold_by)(HVD_BOR, out, left, right, count);
        break;
    case HVD_BXOR:
        OF(fold_by)(HVD_BXOR, out, left, right, count);
        break;
#endif
    default:
        OF(fold_by)(HVD_SUM, out, left, right, count);
    }
}

static void OF(scale)(void *out, const void *in, int64_t count, double number)
{
    TYPE *to = out;
    const TYPE *from = in;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = OF(scaled)(from[i], number);
}

static void OF(divide)(void *out, const void *in, int64_t count, double number)
{
    TYPE *to = out;
    const TYPE *from = in;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = OF(divided)(from[i], number);
}

static void OF(sum_scale)(void *out, const void *left, const void *right, int64_t count, double number)
{
    TYPE *to = out;
    const TYPE *a = left;
    const TYPE *b = right;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = OF(scaled)(OF(folded)(HVD_SUM, a[i], b[i]), number);
}

#undef TYPE
#endif
