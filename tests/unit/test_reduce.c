/* test_reduce.c: sums and quotients, element by element. */
#include "unit.h"

#include "sums.h"

#define MOST 1027

/* Every length from none to past the vector registers, and one long one. */
static int64_t length_at(int i)
{
    return i < 40 ? i : MOST;
}

/* Which of the three arrays the sum goes to. */
enum { APART, LEFT, RIGHT, PLACES };

START_TEST(adds_like_the_plain_loop)
{
    static _Alignas(64) char left[MOST * 8 + 8];
    static _Alignas(64) char right[MOST * 8 + 8];
    static _Alignas(64) char out[MOST * 8 + 8];
    static char expected[MOST * 8 + 8];
    char *const places[PLACES] = {[APART] = out, [LEFT] = left, [RIGHT] = right};
    enum hvd_dtype dtype = (enum hvd_dtype)(_i % SUMS_DTYPES);
    char *place = places[_i / SUMS_DTYPES];
    for (int i = 0; i <= 40; i++) {
        int64_t count = length_at(i);
        size_t bytes = (size_t)count * dtype_bytes(dtype);
        memset(place, 0x5a, sizeof(out));
        sums_fill(dtype, left, count, 1);
        sums_fill(dtype, right, count, 2);
        memcpy(expected, left, bytes);
        sums_add(dtype, expected, right, count);
        place[bytes] = 0x5a;
        reduce_add(dtype, place, left, right, count);
        ck_assert_mem_eq(place, expected, bytes);
        ck_assert_int_eq(place[bytes], 0x5a);
    }
}
END_TEST

START_TEST(divides_like_the_plain_loop)
{
    static char data[MOST * 8];
    static char expected[MOST * 8];
    enum hvd_dtype dtype = (enum hvd_dtype)_i;
    for (int divisor = 1; divisor <= 9; divisor++) {
        sums_fill(dtype, data, MOST, 3);
        memcpy(expected, data, sizeof(data));
        sums_divide(dtype, expected, MOST, divisor);
        reduce_divide(dtype, data, MOST, divisor);
        ck_assert_mem_eq(data, expected, MOST * dtype_bytes(dtype));
    }
}
END_TEST

START_TEST(wraps_and_truncates)
{
    int32_t narrow[] = {INT32_MAX, INT32_MIN, -1};
    const int32_t narrow_more[] = {1, -1, -6};
    int64_t wide[] = {INT64_MAX, INT64_MIN, -1};
    const int64_t wide_more[] = {1, -1, -6};
    reduce_add(HVD_INT32, narrow, narrow, narrow_more, 3);
    ck_assert_int_eq(narrow[0], INT32_MIN);
    ck_assert_int_eq(narrow[1], INT32_MAX);
    reduce_divide(HVD_INT32, narrow, 3, 2);
    ck_assert_int_eq(narrow[2], -3);
    reduce_add(HVD_INT64, wide, wide, wide_more, 3);
    ck_assert_int_eq(wide[0], INT64_MIN);
    ck_assert_int_eq(wide[1], INT64_MAX);
    reduce_divide(HVD_INT64, wide, 3, 2);
    ck_assert_int_eq(wide[2], -3);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("reduce");
    tcase_add_loop_test(tcase, adds_like_the_plain_loop, 0, SUMS_DTYPES * PLACES);
    tcase_add_loop_test(tcase, divides_like_the_plain_loop, 0, SUMS_DTYPES);
    tcase_add_test(tcase, wraps_and_truncates);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("reduce", fill);
}
