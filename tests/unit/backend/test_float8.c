/* test_float8.c: float8 to and from float32: every value, and every place where rounding turns. */
#include "unit.h"

#include "narrowing.h"

#define VALUES 256

static const struct {
    enum hvd_dtype dtype;
    int largest; /* the bits of the largest finite number */
} types[] = {{HVD_FLOAT8_E4M3, 0x7e}, {HVD_FLOAT8_E5M2, 0x7b}};

/* As the standard writes them down. */
static const struct {
    enum hvd_dtype dtype;
    uint8_t bits;
    float value;
} examples[] = {
    {HVD_FLOAT8_E4M3, 0x00, 0},        {HVD_FLOAT8_E4M3, 0x80, -0.0f},    {HVD_FLOAT8_E4M3, 0x01, 0x1p-9f},
    {HVD_FLOAT8_E4M3, 0x07, 0x7p-9f},  {HVD_FLOAT8_E4M3, 0x08, 0x1p-6f},  {HVD_FLOAT8_E4M3, 0x38, 1},
    {HVD_FLOAT8_E4M3, 0xbc, -1.5f},    {HVD_FLOAT8_E4M3, 0x78, 256},      {HVD_FLOAT8_E4M3, 0x7e, 448},
    {HVD_FLOAT8_E4M3, 0x7f, NAN},      {HVD_FLOAT8_E4M3, 0xff, NAN},      {HVD_FLOAT8_E5M2, 0x00, 0},
    {HVD_FLOAT8_E5M2, 0x80, -0.0f},    {HVD_FLOAT8_E5M2, 0x01, 0x1p-16f}, {HVD_FLOAT8_E5M2, 0x03, 0x3p-16f},
    {HVD_FLOAT8_E5M2, 0x04, 0x1p-14f}, {HVD_FLOAT8_E5M2, 0x3c, 1},        {HVD_FLOAT8_E5M2, 0xbe, -1.5f},
    {HVD_FLOAT8_E5M2, 0x7b, 57344},    {HVD_FLOAT8_E5M2, 0x7c, INFINITY}, {HVD_FLOAT8_E5M2, 0xfc, -INFINITY},
    {HVD_FLOAT8_E5M2, 0x7d, NAN},      {HVD_FLOAT8_E5M2, 0x7f, NAN},
};

static bool same(float a, float b)
{
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

START_TEST(has_the_values_of_the_standard)
{
    float single = 0;
    reduce_convert(HVD_FLOAT32, &single, examples[_i].dtype, &examples[_i].bits, 1);
    ck_assert_msg(same(single, examples[_i].value), "%#x is %a, expected %a", examples[_i].bits,
                  (double)single, (double)examples[_i].value);
}
END_TEST

/* There and back every finite value is itself, an infinity becomes the largest, and a NaN stays one. */
START_TEST(converts_every_value_there_and_back)
{
    static uint8_t bytes[VALUES], again[VALUES];
    static float singles[VALUES];
    enum hvd_dtype dtype = types[_i].dtype;
    for (int i = 0; i < VALUES; i++)
        bytes[i] = (uint8_t)i;
    reduce_convert(HVD_FLOAT32, singles, dtype, bytes, VALUES);
    reduce_convert(dtype, again, HVD_FLOAT32, singles, VALUES);
    for (int i = 0; i < VALUES; i++) {
        double expected = real_of_bits(dtype, (uint64_t)i);
        ck_assert_msg(same(singles[i], (float)expected), "%#x is %a, expected %a", i, (double)singles[i],
                      expected);
        int back = isnan(expected) ? i | 0x7f : isinf(expected) ? (i & 0x80) | types[_i].largest : i;
        ck_assert_msg(again[i] == back, "%#x becomes %#x, expected %#x", i, again[i], back);
    }
}
END_TEST

/* Between two neighbours, and just off it on either side, and just off the values themselves; above the
 * largest too. */
START_TEST(rounds_to_nearest_even)
{
    enum hvd_dtype dtype = types[_i].dtype;
    for (uint64_t i = 0; i <= (uint64_t)types[_i].largest; i++) {
        float lower = (float)real_of_bits(dtype, i);
        float upper = i < (uint64_t)types[_i].largest ? (float)real_of_bits(dtype, i + 1)
                                                      : 2 * lower - (float)real_of_bits(dtype, i - 1);
        float middle = lower / 2 + upper / 2;
        const float around[] = {nextafterf(lower, -INFINITY), nextafterf(lower, INFINITY),
                                nextafterf(middle, 0),        middle,
                                nextafterf(middle, INFINITY), upper};
        assert_narrowed(dtype, around, 6);
    }
}
END_TEST

START_TEST(narrows_all_magnitudes)
{
    assert_all_magnitudes_narrowed(types[_i].dtype);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("float8");
    unit_add_rounds(tcase, has_the_values_of_the_standard, 0, sizeof(examples) / sizeof(examples[0]));
    unit_add_rounds(tcase, converts_every_value_there_and_back, 0, 2);
    unit_add_rounds(tcase, rounds_to_nearest_even, 0, 2);
    unit_add_rounds(tcase, narrows_all_magnitudes, 0, 2);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("float8", fill);
}
