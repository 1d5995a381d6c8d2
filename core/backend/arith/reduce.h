/* reduce.h: element-wise arithmetic that the backends of host memory share. Pure, and the same bits whatever
 * the vectors' lengths, alignment or machine; only of which NaN becomes of two nothing is said. Pointers need
 * no alignment, and may be NULL where count is 0. */
#ifndef BACKEND_ARITH_REDUCE_H
#define BACKEND_ARITH_REDUCE_H

#include <stdbool.h>

#include "backend/arith/kernels.h"

/* A reduction of elements of [dtype] whose partial results are of [partial]: float32 where dtype is a half
 * type that shall be rounded once, otherwise dtype. */
struct reduction {
    enum hvd_dtype dtype, partial;
    enum hvd_op op; /* not HVD_ADASUM */
    double prescale, postscale;
    int ranks; /* an average is divided by this */
};

/* A reduction with all that its loops need looked up, for many short vectors of the same. Factors are 1 where
 * they have no effect, conversions NULL where there is nothing to convert. */
struct reduce_plan {
    const struct arith *arith;
    enum hvd_op op;
    int64_t input_bytes, partial_bytes; /* of an element */
    int64_t block_count; /* elements that a block has room for, as arithmetic is done in them */
    kernel_convert_f *widen_input, *widen_partial, *narrow_partial, *narrow_result;
    double prescale, postscale;
    double inverse; /* of the ranks, where multiplying by it is dividing by them, and faster; otherwise */
    double divisor; /* they themselves */
    bool is_bool;
};

struct reduce_plan reduce_plan_of(const struct reduction *reduction);

/* Is there such a reduction? Not an average of bools, nor Adasum. */
bool reduce_can(enum hvd_op op, enum hvd_dtype dtype);

/* The type of partial results that are rounded once. */
enum hvd_dtype reduce_partial(enum hvd_dtype dtype);

/* An input is a partial result as it is: same type, factor 1 (or bools, on which factors have no effect). */
bool reduce_input_is_partial(const struct reduction *reduction);

/* partial[i] = input[i] * prescale. partial may be input where types are the same; otherwise nothing
 * overlaps. */
void reduce_begin(const struct reduction *reduction, void *partial, const void *input, int64_t count);

/* out[i] = left[i] op (input[i] * prescale), left the result of lower ranks. out is a partial; it may be
 * left, and where types are the same it may be input; otherwise nothing overlaps. */
void reduce_fold(const struct reduction *reduction, void *out, const void *left, const void *input,
                 int64_t count);

/* result[i] = partial[i] / ranks (where that is an average) * postscale, of [dtype]. result may be partial
 * where types are the same; otherwise nothing overlaps. */
void reduce_finish(const struct reduction *reduction, void *result, const void *partial, int64_t count);

/* reduce_fold and reduce_finish in one pass: [result] is of [dtype], and may be input, or left where types
 * are the same; otherwise nothing overlaps. */
void reduce_end(const struct reduction *reduction, void *result, const void *left, const void *input,
                int64_t count);

/* All of it in one pass: out[i] = (inputs[0][i] * prescale) op (inputs[1][i] * prescale) op ..., in this
 * order, and finished; the same goes to [copy], unless that is NULL. out may be one of the inputs; otherwise
 * nothing overlaps. */
void reduce_inputs(const struct reduce_plan *steps, void *out, void *copy, const void *const *inputs,
                   int input_count, int64_t count);

/* to[i] = from[i], rounded to nearest even; between float32 and the half types, or the same type. */
void reduce_convert(enum hvd_dtype to_dtype, void *to, enum hvd_dtype from_dtype, const void *from,
                    int64_t count);

/* Adasum of two vectors of float32 or float64. In pieces, each but the last a multiple of REDUCE_BLOCK
 * elements: add this piece's a.a, b.b and a.b to [dots], in the order of elements. However the pieces are cut
 * the bits are the same. */
#define REDUCE_BLOCK 64
void reduce_dots(enum hvd_dtype dtype, const void *a, const void *b, int64_t count, double dots[3]);

/* out[i] = a[i] * factors[0] + b[i] * factors[1], in float64 and rounded once. out may be a or b, otherwise
 * nothing overlaps. */
void reduce_blend(enum hvd_dtype dtype, void *out, const void *a, const void *b, const double factors[2],
                  int64_t count);

#endif
