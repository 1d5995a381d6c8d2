/* reference.h: computes results in one process from all ranks' inputs, as plainly as possible. It shares no
 * code with the library, so that a mistake in the library shows as a difference. */
#ifndef TESTS_RUN_REFERENCE_H
#define TESTS_RUN_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd.h>

/* ---- Random numbers: a stream for each purpose, so that each rank can compute those of another ---- */

struct random_stream {
    uint64_t state;
};

/* The stream that belongs to these three numbers. */
struct random_stream random_stream_of(uint64_t seed, uint64_t what, uint64_t which);
uint64_t random_stream_next(struct random_stream *draws);
int64_t random_stream_below(struct random_stream *draws,
                            int64_t limit); /* 0 to limit - 1; 0 where limit is 0 */
bool random_stream_chance(struct random_stream *draws, int percent);

/* ---- Values -------------------------------------------------------------------------------------------- */

#define REFERENCE_DTYPES 13

size_t reference_bytes(enum hvd_dtype dtype); /* bytes of one element */
const char *reference_dtype(enum hvd_dtype dtype);
const char *reference_op(enum hvd_op op);
bool reference_is_float(enum hvd_dtype dtype);

/* Write [count] elements, which follow from the key. [tame]: numbers between -1 and 1; otherwise numbers of
 * very different magnitude, with infinities, zeros of both signs and NaN, and integers of any bits. */
void reference_fill(enum hvd_dtype dtype, uint64_t key, bool tame, void *data, int64_t count);

/* Are these elements equal bit for bit? All NaNs count as equal; if [zeros], so do 0 and -0. */
bool reference_same(enum hvd_dtype dtype, const void *a, const void *b, bool zeros);

/* Write an element as text: "1.5 (0x3fc00000)". */
void reference_write(enum hvd_dtype dtype, const void *element, char *text, size_t text_bytes);

/* ---- Reductions ---------------------------------------------------------------------------------------- */

struct reference_reduction {
    enum hvd_dtype dtype;
    enum hvd_op op;
    enum hvd_wire wire;
    double prescale, postscale;
    int ranks;
};

/* Reduce inputs[0][i] to inputs[ranks - 1][i] into result[i]. An input of NULL is zeros. Not for Adasum. */
void reference_reduce(const struct reference_reduction *reduction, const void *const *inputs, void *result,
                      int64_t count);

/* Adasum, computed in float64 for every dtype. */
void reference_adasum(const struct reference_reduction *reduction, const void *const *inputs, double *result,
                      int64_t count);

/* How far an element may be from that of reference_adasum, relative to the largest element. */
double reference_tolerance(enum hvd_dtype dtype);

/* Element [i] of a floating-point type. */
double reference_value(enum hvd_dtype dtype, const void *data, int64_t i);

#endif
