/* kernels_f16c.h: vectors of float16 to and from float32 by the processor's own instructions, for kernels.c.
 *
 * They round to nearest even, whatever rounding mode the program has set, and treat NaN as base/narrow.h
 * does. For bfloat16, AVX-512 has an instruction too, but that treats subnormals as 0. */
#ifdef __F16C__
#include <immintrin.h>

static inline void float16_widen_f16c(void *to, const void *from, int64_t count)
{
    float32 *singles = to;
    const uint16 *halves = from;
    int64_t done = 0;
    for (; count - done >= 8; done += 8)
        _mm256_storeu_ps((float *)to + done, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(halves + done))));
    if (done < count) /* vectors of no elements may be NULL */
        float16_widen(singles + done, halves + done, count - done);
}

static inline void float16_narrow_f16c(void *to, const void *from, int64_t count)
{
    uint16 *halves = to;
    const float32 *singles = from;
    int64_t done = 0;
    for (; count - done >= 8; done += 8)
        _mm_storeu_si128((void *)(halves + done), _mm256_cvtps_ph(_mm256_loadu_ps((const float *)from + done),
                                                                  _MM_FROUND_TO_NEAREST_INT));
    if (done < count)
        float16_narrow(halves + done, singles + done, count - done);
}
#endif
