/* reference.h: results as one process computes them from all ranks' inputs, written as plainly as can be. It
 * shares no line with the library: a wrong sum there is a difference here. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd.h>

/* ---- Random numbers: a stream for each purpose, so that each rank can draw what another one draws -------
 */

struct random_stream {
    uint64_t state;
};

/* The stream of these numbers. */
struct random_stream random_stream_of(uint64_t seed, uint64_t what, uint64_t which);
uint64_t random_stream_next(struct random_stream *draws);
int64_t random_stream_below(struct random_stream *draws,
                            int64_t limit); /* 0 to limit - 1; 0 where limit is 0 */
bool random_stream_chance(struct random_stream *draws, int percent);

/* ---- Values -------------------------------------------------------------------------------------------- */

#define REFERENCE_DTYPES 11

size_t reference_bytes(enum hvd_dtype dtype); /* of one element */
const char *reference_dtype(enum hvd_dtype dtype);
const char *reference_op(enum hvd_op op);
bool reference_is_float(enum hvd_dtype dtype);

/* Write [count] elements that the key decides. [tame]: numbers between -1 and 1; otherwise of very different
 * size, with infinities, zeros of both signs and NaN among them, and integers of all bits. */
void reference_fill(enum hvd_dtype dtype, uint64_t key, bool tame, void *data, int64_t count);

/* Are these elements equal bit for bit? One NaN is as good as another; [zeros]: so is -0 as 0. */
bool reference_same(enum hvd_dtype dtype, const void *a, const void *b, bool zeros);

/* An element in words: "1.5 (0x3fc00000)". */
void reference_write(enum hvd_dtype dtype, const void *element, char *text, size_t text_bytes);

/* ---- Reductions ---------------------------------------------------------------------------------------- */

struct reference_reduction {
    enum hvd_dtype dtype;
    enum hvd_op op;
    enum hvd_wire wire;
    double prescale, postscale;
    int ranks;
};

/* result[i] of inputs[0][i] to inputs[ranks - 1][i], an input of NULL being zeros. Not of Adasum. */
void reference_reduce(const struct reference_reduction *reduction, const void *const *inputs, void *result,
                      int64_t count);

/* Adasum in float64, whatever the dtype. */
void reference_adasum(const struct reference_reduction *reduction, const void *const *inputs, double *result,
                      int64_t count);

/* How far an element may be from reference_adasum's, relative to the largest of them. */
double reference_tolerance(enum hvd_dtype dtype);

/* An element of a floating-point type. */
double reference_value(enum hvd_dtype dtype, const void *data, int64_t i);

#endif
