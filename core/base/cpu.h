/* cpu.h: what a loop needs from the processor beyond C: the size of a cache line, prefetching, streaming
 * stores, and relaxing while it spins. Everything here is inline and works on any processor, if more slowly.
 */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Cores fetch and invalidate memory in lines of this size. Words that different threads write go on different
 * lines. */
#define CACHE_LINE_BYTES 64

/* Called in each round of a loop that spins. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- Prefetching: [line] may be any address, even one that is not mapped --------------------- */

static inline void prefetch_to_read(const char *line)
{
    __builtin_prefetch(line);
}

/* On x86-64 a compiler turns __builtin_prefetch(line, 1) into a prefetch for reading unless it compiles for a
 * processor that has PREFETCHW. Processors without PREFETCHW ignore the instruction, so it is always used. */
static inline void prefetch_to_write(const char *line)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* ---- Streaming (non-temporal) stores --------------------------------------------------------- */

/* streaming_copy writes whole lines to memory without loading them into this core's cache. That is faster for
 * data that another core reads next, or that nobody reads soon: the old contents of the line need not be
 * fetched, and the reader need not fetch the line from this core. Without SSE2 it is a plain memcpy. */

#ifdef __SSE2__

/* The four stores of a line follow each other: with other stores in between, the processor would write the
 * parts of the line to memory one by one. */
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

/* Call streaming_copy_fence before the store that tells other threads of the copy. Parts of lines at both
 * ends go through the cache. */
static inline void streaming_copy(char *to, const char *from, int64_t bytes)
{
    int64_t at = (int64_t)(-(uintptr_t)to % CACHE_LINE_BYTES);
    at = at < bytes ? at : bytes;
    memcpy(to, from, (size_t)at);
    for (; bytes - at >= CACHE_LINE_BYTES; at += CACHE_LINE_BYTES)
        streaming_copy_line(to + at, from + at);
    memcpy(to + at, from + at, (size_t)(bytes - at));
}

/* Order all streaming stores of this thread before its later stores. */
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
