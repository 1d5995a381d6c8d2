/* pattern.c: values with which ranks fill tensors, so that every rank knows the sums. */
#include "tools/hvdbench/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "backend/arith/reduce.h"

#define PERIOD  251
#define PERIODS 65 /* in an image, of which all but one are copied at a time */

/* 0 to 3. */
static int value_of(int place, int rank)
{
    uint32_t mixed = ((uint32_t)place + 1) * UINT32_C(2654435761) + (uint32_t)rank * UINT32_C(2246822519);
    mixed ^= mixed >> 15;
    mixed *= UINT32_C(2654435761);
    return (int)(mixed >> 30);
}

/* Convert [values] to elements of [dtype]. Integers wrap around, as their sums do. */
static void encode(enum hvd_dtype dtype, const double values[PERIOD], unsigned char *to)
{
    size_t bytes = dtype_bytes(dtype);
    for (int i = 0; i < PERIOD; i++) {
        int64_t whole = (int64_t)values[i];
        float single = (float)values[i];
        if (dtype == HVD_FLOAT64)
            memcpy(to + (size_t)i * bytes, &values[i], bytes);
        else if (dtype_is_real(dtype))
            reduce_convert(dtype, to + (size_t)i * bytes, HVD_FLOAT32, &single, 1);
        else
            memcpy(to + (size_t)i * bytes, &whole, bytes); /* the low bytes come first */
    }
}

static unsigned char *make_image(enum hvd_dtype dtype, const double values[PERIOD])
{
    size_t bytes = PERIOD * dtype_bytes(dtype);
    unsigned char *image = malloc(PERIODS * bytes);
    if (image == NULL)
        return NULL;
    encode(dtype, values, image);
    for (size_t i = 1; i < PERIODS; i++)
        memcpy(image + i * bytes, image, bytes);
    return image;
}

int pattern_init(struct pattern *pattern, enum hvd_dtype dtype, int rank, int size, struct hvd_error *err)
{
    double own[PERIOD];
    double summed[PERIOD];
    for (int place = 0; place < PERIOD; place++) {
        own[place] = value_of(place, rank);
        summed[place] = 0;
        for (int other = 0; other < size; other++)
            summed[place] += value_of(place, other);
    }
    *pattern = (struct pattern){dtype, make_image(dtype, own), make_image(dtype, summed)};
    if (pattern->own != NULL && pattern->summed != NULL)
        return HVD_OK;
    pattern_fini(pattern);
    return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for what tensors are filled with");
}

void pattern_fini(struct pattern *pattern)
{
    free(pattern->own);
    free(pattern->summed);
    *pattern = (struct pattern){0};
}

void pattern_fill(const struct pattern *pattern, void *data, int64_t count, int64_t shift)
{
    size_t bytes = dtype_bytes(pattern->dtype);
    const unsigned char *from = pattern->own + (size_t)(shift % PERIOD) * bytes;
    size_t piece = (PERIODS - 1) * PERIOD * bytes;
    size_t left = (size_t)count * bytes;
    for (unsigned char *to = data; left > 0; to += piece) {
        piece = left < piece ? left : piece;
        memcpy(to, from, piece);
        left -= piece;
    }
}

/* The index of the first element of [data] that differs from [image], or -1. */
static int64_t find_other(const struct pattern *pattern, const unsigned char *image, const void *data,
                          int64_t count, int64_t shift)
{
    int64_t bytes = (int64_t)dtype_bytes(pattern->dtype);
    const unsigned char *expected = image + (shift % PERIOD) * bytes;
    int64_t piece = (PERIODS - 1) * PERIOD;
    for (int64_t at = 0; at < count; at += piece) {
        const unsigned char *found = (const unsigned char *)data + at * bytes;
        int64_t length = count - at < piece ? count - at : piece;
        if (memcmp(found, expected, (size_t)(length * bytes)) == 0)
            continue;
        int64_t i = 0;
        while (memcmp(found + i * bytes, expected + i * bytes, (size_t)bytes) == 0)
            i++;
        return at + i;
    }
    return -1;
}

int64_t pattern_find_wrong(const struct pattern *pattern, const void *data, int64_t count, int64_t shift)
{
    return find_other(pattern, pattern->summed, data, count, shift);
}

int64_t pattern_find_changed(const struct pattern *pattern, const void *data, int64_t count, int64_t shift)
{
    return find_other(pattern, pattern->own, data, count, shift);
}
