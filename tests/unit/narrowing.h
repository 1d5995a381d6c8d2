/* narrowing.h: is a float32 rounded to a narrow type as arithmetic in float64 would round it? */
#ifndef TESTS_UNIT_NARROWING_H
#define TESTS_UNIT_NARROWING_H

#include "unit.h"

#include "elements.h"
#include "backend/arith/reduce.h"

#define HALVES 65536

static inline void assert_narrowed(enum hvd_dtype dtype, const float *singles, int64_t count)
{
    static uint16_t found[HALVES];
    reduce_convert(dtype, found, HVD_FLOAT32, singles, count);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = element_bits(dtype, found, i);
        uint64_t expected = bits_of_real(dtype, (double)singles[i]);
        if (isnan(singles[i]) ? !isnan(real_of_bits(dtype, bits)) : bits != expected)
            ck_abort_msg("%a becomes %#x, expected %#x", (double)singles[i], (int)bits, (int)expected);
    }
}

/* All upper halves of a float32 with lower halves at which something may turn. */
static inline void assert_all_magnitudes_narrowed(enum hvd_dtype dtype)
{
    static const uint32_t lower[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000,
                                     0x3001, 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xffff};
    static float singles[HALVES];
    for (size_t i = 0; i < sizeof(lower) / sizeof(lower[0]); i++) {
        for (uint32_t upper = 0; upper < HALVES; upper++) {
            uint32_t bits = upper << 16 | lower[i];
            memcpy(&singles[upper], &bits, sizeof(bits));
        }
        assert_narrowed(dtype, singles, HALVES);
    }
}

#endif
