/* reduce.h: the element-wise arithmetic that backends for host memory share. Pure, and the same bits whatever
 * the vectors' lengths and alignment and the machine, except that which of two NaNs results is undefined.
 * Pointers need no alignment, and may be NULL if count is 0.
 *
 * arith/ has the arithmetic: reduce.c combines scaling, folding, dividing and conversion in blocks that stay
 * in the cache; target.c chooses the fastest kernels, which kernels*.h define once and the build compiles for
 * each target. */
#ifndef BACKEND_ARITH_REDUCE_H
#define BACKEND_ARITH_REDUCE_H

#include <stdbool.h>

#include "backend/arith/kernels.h"

/* A reduction of elements of [dtype] with partial results of [partial]: float32 if dtype is a narrow type
 * that is to be rounded only once, otherwise dtype. */
struct reduction {
    enum hvd_dtype dtype, partial;
    enum hvd_op op; /* not HVD_ADASUM */
    double prescale, postscale;
    int ranks; /* an average divides by this */
};

/* A reduction with everything that its loops need looked up, for many short vectors. Factors are 1 if they
 * have no effect, conversions NULL if there is nothing to convert. */
struct reduce_plan {
    const struct arith *arith;
    enum hvd_op op;
    int64_t input_bytes, partial_bytes; /* of an element */
    int64_t block_count;                /* elements in a block, in the type in which arithmetic is done */
    kernel_convert_f *widen_input, *widen_partial, *narrow_partial, *narrow_result;
    double prescale, postscale;
    /* for an average: 1 / ranks if multiplying by it gives the same bits as dividing, which is slower;
     * otherwise 1 */
    double inverse;
    double divisor; /* for an average without inverse: the ranks */
    bool is_bool;
};

struct reduce_plan reduce_plan_of(const struct reduction *reduction);

/* Does this reduction exist? Averages of bools and Adasum do not. */
bool reduce_can(enum hvd_op op, enum hvd_dtype dtype);

/* The type of partial results if the result is to be rounded only once. */
enum hvd_dtype reduce_partial(enum hvd_dtype dtype);

/* Is an input a partial result as it is: same type, and factor 1 or bools, which factors do not change? */
bool reduce_input_is_partial(const struct reduction *reduction);

/* partial[i] = input[i] * prescale. partial may be input if the types are the same; otherwise nothing
 * overlaps. */
void reduce_begin(const struct reduction *reduction, void *partial, const void *input, int64_t count);

/* out[i] = left[i] op (input[i] * prescale), where left is the partial result of lower ranks. out, a partial
 * result, may be left, and if the types are the same it may be input; otherwise nothing overlaps. */
void reduce_fold(const struct reduction *reduction, void *out, const void *left, const void *input,
                 int64_t count);

/* result[i] = partial[i] / ranks (for an average) * postscale, of [dtype]. result may be partial if the types
 * are the same; otherwise nothing overlaps. */
void reduce_finish(const struct reduction *reduction, void *result, const void *partial, int64_t count);

/* reduce_fold and reduce_finish in one pass. [result] is of [dtype], and may be input, or left if the types
 * are the same; otherwise nothing overlaps. */
void reduce_end(const struct reduction *reduction, void *result, const void *left, const void *input,
                int64_t count);

/* A whole reduction in one pass: out[i] = (inputs[0][i] * prescale) op (inputs[1][i] * prescale) op ..., in
 * this order, then finished. The result is also stored to [copy], unless that is NULL. out may be one of the
 * inputs; otherwise nothing overlaps. */
void reduce_inputs(const struct reduce_plan *plan, void *out, void *copy, const void *const *inputs,
                   int input_count, int64_t count);

/* to[i] = from[i], to nearest even. The types are equal, or float32 and a narrow type. */
void reduce_convert(enum hvd_dtype to_dtype, void *to, enum hvd_dtype from_dtype, const void *from,
                    int64_t count);

/* Adasum of two vectors of float32 or float64, in segments of which each but the last is a multiple of
 * REDUCE_BLOCK elements: add this segment's a.a, b.b and a.b to [dots]. Call it in the order of elements. The
 * bits do not depend on how the vectors are divided into segments. */
#define REDUCE_BLOCK 64
void reduce_dots(enum hvd_dtype dtype, const void *a, const void *b, int64_t count, double dots[3]);

/* out[i] = a[i] * factors[0] + b[i] * factors[1], in float64 and rounded once. out may be a or b; otherwise
 * nothing overlaps. */
void reduce_blend(enum hvd_dtype dtype, void *out, const void *a, const void *b, const double factors[2],
                  int64_t count);

#endif
