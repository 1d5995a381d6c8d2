/* streaming_copy.h: copies that go to memory past the cache, for what another core reads next, or nobody
 * soon: the lines need not be fetched from wherever they are before they are written, nor out of this core's
 * cache before another reads them. On processors other than x86-64 they are copies like any others. */
#ifndef BASE_STREAMING_COPY_H
#define BASE_STREAMING_COPY_H

#include <stdint.h>
#include <string.h>

#include "base/cache_line.h"

#ifdef __SSE2__
#include <emmintrin.h>

/* All of the line in a row: with other stores in between its parts would go to memory one by one. */
static inline void streaming_copy_line(char *to, const char *from)
{
    const __m128i *in = (const __m128i *)(const void *)from;
    __m128i *out = (__m128i *)(void *)to;
    __m128i first = _mm_loadu_si128(in);
    __m128i second = _mm_loadu_si128(in + 1);
    __m128i third = _mm_loadu_si128(in + 2);
    __m128i fourth = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, first);
    _mm_stream_si128(out + 1, second);
    _mm_stream_si128(out + 2, third);
    _mm_stream_si128(out + 3, fourth);
}

/* Others may see it only after streaming_copy_fence. What is less than a line goes through the cache. */
static inline void streaming_copy(char *to, const char *from, int64_t bytes)
{
    int64_t at = (int64_t)(-(uintptr_t)to % CACHE_LINE_BYTES);
    at = at < bytes ? at : bytes;
    memcpy(to, from, (size_t)at);
    for (; bytes - at >= CACHE_LINE_BYTES; at += CACHE_LINE_BYTES)
        streaming_copy_line(to + at, from + at);
    memcpy(to + at, from + at, (size_t)(bytes - at));
}

/* What was copied is seen by whoever sees what is written from here on. */
static inline void streaming_copy_fence(void)
{
    _mm_sfence();
}

#else

static inline void streaming_copy(char *to, const char *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}

static inline void streaming_copy_fence(void)
{
}

#endif

#endif
