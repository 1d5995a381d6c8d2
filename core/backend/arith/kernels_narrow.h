/* kernels_narrow.h: vectors of one narrow type to and from float32, in operations that every compiler
 * vectorises.
 *
 * kernels.c includes it once for each, after defining TYPE and BITS, the unsigned type of its size. By itself
 * this file is empty. */
#ifdef TYPE

static inline void OF(widen)(void *to, const void *from, int64_t count)
{
    single_bits *singles = to;
    const BITS *narrow = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        singles[i] = OF(widened)(narrow[i]);
}

static inline void OF(narrow)(void *to, const void *from, int64_t count)
{
    BITS *narrow = to;
    const single_bits *singles = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        narrow[i] = (BITS)OF(narrowed)(singles[i]);
}

#undef TYPE
#undef BITS
#endif
