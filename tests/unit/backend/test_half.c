/* test_half.c: float16 and bfloat16 to and from float32: every value, and every place where rounding turns.
 */
#include "unit.h"

#include "narrowing.h"

static const struct {
    enum hvd_dtype dtype;
    uint16_t infinite; /* its bits, which are those of the exponent */
    uint16_t quiet;    /* the bit that makes a NaN quiet */
} types[] = {{HVD_FLOAT16, 0x7c00, 0x0200}, {HVD_BFLOAT16, 0x7f80, 0x0040}};

static bool is_nan(uint16_t bits, uint16_t infinite)
{
    return (bits & 0x7fff) > infinite;
}

/* Quiet in both types, and otherwise the bits that it was, but for those of bfloat16, which are just moved.
 */
static uint32_t widened_nan(enum hvd_dtype dtype, uint32_t half)
{
    return dtype == HVD_BFLOAT16 ? half << 16 : (half & 0x8000) << 16 | 0x7fc00000 | (half & 0x3ff) << 13;
}

START_TEST(widens_every_value_exactly)
{
    static uint16_t halves[HALVES];
    static float singles[HALVES];
    for (int i = 0; i < HALVES; i++)
        halves[i] = (uint16_t)i;
    reduce_convert(HVD_FLOAT32, singles, types[_i].dtype, halves, HALVES);
    for (int i = 0; i < HALVES; i++) {
        double expected = element_at(types[_i].dtype, halves, i).real;
        bool same = isnan(expected)
                        ? element_bits(HVD_FLOAT32, singles, i) == widened_nan(types[_i].dtype, (uint32_t)i)
                        : (double)singles[i] == expected && !signbit(singles[i]) == !signbit(expected);
        if (!same)
            ck_abort_msg("%#x becomes %a, expected %a", i, (double)singles[i], expected);
    }
}
END_TEST

/* Back again every value is itself, but that a NaN is quiet. */
START_TEST(narrows_what_was_widened)
{
    static uint16_t halves[HALVES], again[HALVES];
    static float singles[HALVES];
    for (int i = 0; i < HALVES; i++)
        halves[i] = (uint16_t)i;
    reduce_convert(HVD_FLOAT32, singles, types[_i].dtype, halves, HALVES);
    reduce_convert(types[_i].dtype, again, HVD_FLOAT32, singles, HALVES);
    for (int i = 0; i < HALVES; i++) {
        int expected = is_nan(halves[i], types[_i].infinite) ? i | types[_i].quiet : i;
        if (again[i] != expected)
            ck_abort_msg("%#x becomes %#x, expected %#x", i, again[i], expected);
    }
}
END_TEST

/* Between two neighbours, and just off it on either side, and just off the values themselves. */
START_TEST(rounds_to_nearest_even)
{
    static float singles[HALVES];
    enum hvd_dtype dtype = types[_i].dtype;
    for (uint16_t i = 0; i < types[_i].infinite; i++) {
        double lower = real_of_bits(dtype, i);
        double upper = i + 1 < types[_i].infinite ? real_of_bits(dtype, (uint64_t)i + 1)
                                                  : 2 * lower - real_of_bits(dtype, (uint64_t)i - 1);
        float middle = (float)(lower / 2 + upper / 2);
        ck_assert_msg((double)middle == lower / 2 + upper / 2, "the middle is no float32");
        const float around[] = {nextafterf((float)lower, -INFINITY), nextafterf((float)lower, INFINITY),
                                nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
        for (int j = 0; j < 5; j++) {
            singles[2 * j] = around[j];
            singles[2 * j + 1] = -around[j];
        }
        assert_narrowed(dtype, singles, 10);
    }
}
END_TEST

START_TEST(narrows_all_magnitudes)
{
    assert_all_magnitudes_narrowed(types[_i].dtype);
}
END_TEST

/* The loops' heads and tails do what their middles do, from any byte on. */
START_TEST(converts_vectors_of_any_length_and_place)
{
    enum { MOST = 67 };
    char halves[MOST * 2 + 2], singles[MOST * 4 + 2], again[MOST * 2 + 2];
    enum hvd_dtype dtype = types[_i].dtype;
    for (int count = 0; count <= MOST; count++) {
        int offset = count % 2;
        for (int i = 0; i < count; i++)
            element_put(dtype, halves + offset, i, (struct element){.real = ldexp(1 + i, i % 20 - 20)});
        memset(singles, 0x5a, sizeof(singles));
        memset(again, 0x5a, sizeof(again));
        reduce_convert(HVD_FLOAT32, singles + offset, dtype, halves + offset, count);
        reduce_convert(dtype, again + offset, HVD_FLOAT32, singles + offset, count);
        for (int i = 0; i < count; i++)
            ck_assert_double_eq(element_at(HVD_FLOAT32, singles + offset, i).real,
                                element_at(dtype, halves + offset, i).real);
        ck_assert_mem_eq(again + offset, halves + offset, (size_t)count * 2);
        ck_assert_int_eq(singles[offset + count * 4], 0x5a);
        ck_assert_int_eq(again[offset + count * 2], 0x5a);
    }
}
END_TEST

START_TEST(copies_what_is_alike)
{
    const double from[] = {1, -0.0, 3};
    double to[] = {0, 0, 0};
    reduce_convert(HVD_FLOAT64, to, HVD_FLOAT64, from, 3);
    ck_assert_mem_eq(to, from, sizeof(from));
    reduce_convert(HVD_FLOAT64, to, HVD_FLOAT64, to, 3);
    ck_assert_mem_eq(to, from, sizeof(from));
}
END_TEST

static void fill(Suite *suite)
{
    int count = sizeof(types) / sizeof(types[0]);
    TCase *tcase = tcase_create("half");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, widens_every_value_exactly, 0, count);
    tcase_add_loop_test(tcase, narrows_what_was_widened, 0, count);
    tcase_add_loop_test(tcase, rounds_to_nearest_even, 0, count);
    tcase_add_loop_test(tcase, narrows_all_magnitudes, 0, count);
    tcase_add_loop_test(tcase, converts_vectors_of_any_length_and_place, 0, count);
    tcase_add_test(tcase, copies_what_is_alike);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("half", fill);
}
