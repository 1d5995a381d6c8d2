/* pack_samples.h: batches of tensors at random, what packing and unpacking must make of them, and the
 * comparison, for whatever runs the kernel. */
#ifndef TESTS_UNIT_CUDA_PACK_SAMPLES_H
#define TESTS_UNIT_CUDA_PACK_SAMPLES_H

#include "unit.h"

#include <stdio.h>

#include "base/dtype.h"
#include "elements.h"
#include "cuda/pack.h"

#define GUARD      0x5a
#define PIECES_MAX 40
#define SLACK      64 /* bytes before and after every tensor that nobody may write */

static inline void *allocated(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

struct sample {
    enum hvd_dtype buffer_dtype;
    double scale;
    int blocks, count;
    struct pack_piece pieces[PIECES_MAX];
    char *memory[PIECES_MAX]; /* of a tensor, with slack */
    size_t memory_bytes[PIECES_MAX];
    char *expected; /* the buffer */
    char *buffer;
    size_t buffer_bytes;
};

/* Several draws, so that other types than the buffer's are not rare. */
static inline enum hvd_dtype dtype_for(enum hvd_dtype buffer_dtype, uint64_t random)
{
    for (int draw = 0; draw < 4; draw++, random >>= 8)
        if (pack_supports((enum hvd_dtype)(random % ELEMENT_DTYPES), buffer_dtype))
            return (enum hvd_dtype)(random % ELEMENT_DTYPES);
    return buffer_dtype;
}

/* Mostly small, some of several tiles. */
static inline int64_t count_of(uint64_t random)
{
    return random % 7 == 0   ? (int64_t)(random >> 8) % 9000
           : random % 5 == 0 ? 0
                             : (int64_t)(random >> 8) % 300;
}

/* One tensor in six lies at an odd place; the others as their type wants it. */
static inline size_t place_of(uint64_t random, int bytes)
{
    return random % 6 == 0 ? (random >> 8) % 16 : (random >> 8) % 16 / (size_t)bytes * (size_t)bytes;
}

static inline void sample_begin(struct sample *sample, uint64_t seed)
{
    static const double scales[] = {1, 1, 0.5, -3.7, 1e-3, 1e30};
    uint64_t state = seed * 2 + 1;
    int64_t at = 0;
    element_random(&state);
    sample->buffer_dtype = (enum hvd_dtype)(element_random(&state) % ELEMENT_DTYPES);
    sample->scale = scales[element_random(&state) % 6];
    sample->blocks = 1 + (int)(element_random(&state) % 3);
    sample->count = (int)(element_random(&state) % PIECES_MAX);
    for (int i = 0; i < sample->count; i++) {
        struct pack_piece *piece = &sample->pieces[i];
        piece->dtype = dtype_for(sample->buffer_dtype, element_random(&state));
        piece->count = count_of(element_random(&state));
        at += element_random(&state) % 3 == 0 ? (int64_t)(element_random(&state) % 40) : 0; /* gaps */
        piece->buffer_at = at;
        at += piece->count;
        size_t bytes = (size_t)piece->count * dtype_bytes(piece->dtype);
        sample->memory_bytes[i] = bytes + 2 * SLACK;
        sample->memory[i] = allocated(sample->memory_bytes[i]);
        size_t place = SLACK + place_of(element_random(&state), (int)dtype_bytes(piece->dtype));
        memset(sample->memory[i], GUARD, bytes + 2 * SLACK);
        piece->tensor = sample->memory[i] + place;
        element_fill(piece->dtype, piece->tensor, piece->count, element_random(&state));
        if (element_random(&state) % 16 == 0)
            piece->tensor = NULL;
    }
    sample->buffer_bytes = (size_t)at * dtype_bytes(sample->buffer_dtype) + 2 * SLACK;
    sample->buffer = allocated(sample->buffer_bytes);
    sample->expected = allocated(sample->buffer_bytes);
    memset(sample->buffer, GUARD, sample->buffer_bytes);
    memset(sample->expected, GUARD, sample->buffer_bytes);
}

static inline void sample_end(struct sample *sample)
{
    for (int i = 0; i < sample->count; i++)
        free(sample->memory[i]);
    free(sample->buffer);
    free(sample->expected);
}

/* Elements in memory. */
struct vector {
    enum hvd_dtype dtype;
    void *data;
};

static inline void convert(struct vector to, int64_t to_at, struct vector from, int64_t from_at, double scale)
{
    if (to.dtype == from.dtype && (scale == 1 || to.dtype == HVD_BOOL)) {
        uint64_t bits = element_bits(from.dtype, from.data, from_at);
        memcpy((char *)to.data + to_at * (int64_t)dtype_bytes(to.dtype), &bits, dtype_bytes(to.dtype));
        return;
    }
    element_put(to.dtype, to.data, to_at,
                element_scaled(from.dtype, element_at(from.dtype, from.data, from_at), scale));
}

static inline void assert_same(const struct sample *sample, const char *what, enum hvd_dtype dtype,
                               const void *expected, const void *found, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!element_same(dtype, expected, found, i))
            ck_abort_msg("%s, buffer of %s, scale %g: element %lld of %lld (%s) is %#llx, expected %#llx",
                         what, dtype_name(sample->buffer_dtype), sample->scale, (long long)i,
                         (long long)count, dtype_name(dtype),
                         (unsigned long long)element_bits(dtype, found, i),
                         (unsigned long long)element_bits(dtype, expected, i));
}

/* Pack all pieces from sample->memory into sample->buffer, or unpack. */
typedef void sample_run_f(struct sample *sample, bool unpack);

static inline void check_pack(uint64_t seed, sample_run_f *run)
{
    struct sample sample;
    sample_begin(&sample, seed);
    char *buffer = sample.buffer + SLACK;
    for (int i = 0; i < sample.count; i++) {
        const struct pack_piece *piece = &sample.pieces[i];
        for (int64_t k = 0; k < piece->count && piece->tensor != NULL; k++)
            convert((struct vector){sample.buffer_dtype, sample.expected + SLACK}, piece->buffer_at + k,
                    (struct vector){piece->dtype, piece->tensor}, k, sample.scale);
        size_t at = (size_t)piece->buffer_at * dtype_bytes(sample.buffer_dtype);
        if (piece->tensor == NULL)
            memset(sample.expected + SLACK + at, 0, (size_t)piece->count * dtype_bytes(sample.buffer_dtype));
    }
    run(&sample, false);
    for (int i = 0; i < sample.count; i++) {
        const struct pack_piece *piece = &sample.pieces[i];
        size_t at = (size_t)piece->buffer_at * dtype_bytes(sample.buffer_dtype);
        assert_same(&sample, "pack", sample.buffer_dtype, sample.expected + SLACK + at, buffer + at,
                    piece->count);
        memset(sample.expected + SLACK + at, GUARD, (size_t)piece->count * dtype_bytes(sample.buffer_dtype));
        memset(buffer + at, GUARD, (size_t)piece->count * dtype_bytes(sample.buffer_dtype));
    }
    ck_assert_mem_eq(sample.buffer, sample.expected, sample.buffer_bytes); /* the gaps */
    sample_end(&sample);
}

static inline void check_unpack(uint64_t seed, sample_run_f *run)
{
    struct sample sample;
    sample_begin(&sample, seed);
    char *buffer = sample.buffer + SLACK;
    element_fill(sample.buffer_dtype, buffer,
                 (int64_t)((sample.buffer_bytes - 2 * SLACK) / dtype_bytes(sample.buffer_dtype)), seed + 99);
    memcpy(sample.expected, sample.buffer, sample.buffer_bytes);
    run(&sample, true);
    ck_assert_mem_eq(sample.buffer, sample.expected, sample.buffer_bytes);
    for (int i = 0; i < sample.count; i++) {
        const struct pack_piece *piece = &sample.pieces[i];
        size_t bytes = (size_t)piece->count * dtype_bytes(piece->dtype);
        if (piece->tensor == NULL)
            continue;
        char *expected = allocated(bytes);
        for (int64_t k = 0; k < piece->count; k++)
            convert((struct vector){piece->dtype, expected}, k, (struct vector){sample.buffer_dtype, buffer},
                    piece->buffer_at + k, sample.scale);
        assert_same(&sample, "unpack", piece->dtype, expected, piece->tensor, piece->count);
        memset(piece->tensor, GUARD, bytes);
        for (size_t k = 0; k < bytes + 2 * SLACK; k++)
            ck_assert_int_eq(sample.memory[i][k], GUARD);
        free(expected);
    }
    sample_end(&sample);
}

/* One tensor of [count] elements, packed into a buffer of another type. */
static inline void check_conversion(struct vector from, enum hvd_dtype buffer_dtype, int64_t count,
                                    sample_run_f *run)
{
    size_t bytes = (size_t)count * dtype_bytes(from.dtype);
    struct sample sample = {.buffer_dtype = buffer_dtype, .scale = 1, .blocks = 2, .count = 1};
    sample.memory_bytes[0] = bytes + 2 * SLACK;
    sample.memory[0] = allocated(sample.memory_bytes[0]);
    sample.pieces[0] =
        (struct pack_piece){.tensor = sample.memory[0] + SLACK, .count = count, .dtype = from.dtype};
    memcpy(sample.pieces[0].tensor, from.data, bytes);
    sample.buffer_bytes = (size_t)count * dtype_bytes(buffer_dtype) + 2 * SLACK;
    sample.buffer = allocated(sample.buffer_bytes);
    sample.expected = allocated(sample.buffer_bytes);
    for (int64_t i = 0; i < count; i++)
        convert((struct vector){buffer_dtype, sample.expected}, i, from, i, 1);
    run(&sample, false);
    assert_same(&sample, "convert", buffer_dtype, sample.expected, sample.buffer + SLACK, count);
    sample_end(&sample);
}

/* Every float16 or bfloat16, and float32 that lie between two of them. */
static inline void check_every_half(enum hvd_dtype half, sample_run_f *run)
{
    static uint16_t halves[65536];
    static float singles[3 * 65536];
    for (int i = 0; i < 65536; i++)
        halves[i] = (uint16_t)i;
    check_conversion((struct vector){half, halves}, HVD_FLOAT32, 65536, run);
    for (int i = 0; i < 65536; i++) {
        float value = (float)element_at(half, halves, i).real;
        float next = (float)element_at(half, halves, (i + 1) % 65536).real;
        singles[3 * i] = value;
        singles[3 * i + 1] = (value + next) / 2;
        singles[3 * i + 2] = nextafterf(singles[3 * i + 1], INFINITY);
    }
    check_conversion((struct vector){HVD_FLOAT32, singles}, half, 3 * 65536, run);
}

#endif
