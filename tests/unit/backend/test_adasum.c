/* test_adasum.c: scalar products whose bits no cut changes, and sums with weights. */
#include "unit.h"

#include "elements.h"
#include "backend/arith/reduce.h"

#define MOST 1301

typedef char vector[1 + MOST * sizeof(double)];

/* Numbers of many sizes and both signs, whose sums have other bits in another order. */
static void fill(enum hvd_dtype dtype, void *data, int64_t count, uint64_t state)
{
    for (int64_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double value = ldexp((double)(state >> 12) - ldexp(1, 51), -51 + (int)(state >> 60) - 6);
        element_put(dtype, data, i, (struct element){.real = value});
    }
}

static const enum hvd_dtype types[] = {HVD_FLOAT32, HVD_FLOAT64};

/* Near enough to what more precise arithmetic says, for the sizes of the terms. */
static void assert_near(double found, long double expected, long double magnitude)
{
    ck_assert_msg(fabsl((long double)found - expected) <= 1e-14L * magnitude, "%a, expected %La", found,
                  expected);
}

START_TEST(multiplies_like_the_plain_loop)
{
    static vector a, b;
    enum hvd_dtype dtype = types[_i];
    fill(dtype, a, MOST, 1);
    fill(dtype, b, MOST, 2);
    for (int64_t count = 0; count <= MOST; count += count < 70 ? 1 : MOST - 70) {
        double dots[3] = {0.5, 0.25, 0.125};
        long double aa = 0, bb = 0, ab = 0;
        for (int64_t i = 0; i < count; i++) {
            long double x = element_at(dtype, a, i).real, y = element_at(dtype, b, i).real;
            aa += x * x;
            bb += y * y;
            ab += x * y;
        }
        reduce_dots(dtype, a, b, count, dots);
        assert_near(dots[0], aa + 0.5L, aa + 1);
        assert_near(dots[1], bb + 0.25L, bb + 1);
        assert_near(dots[2], ab + 0.125L, sqrtl(aa * bb) + 1);
    }
}
END_TEST

/* Pieces of whole blocks; and where the vectors lie. */
START_TEST(cuts_and_places_change_no_bit)
{
    static vector a, b;
    static const int64_t steps[] = {REDUCE_BLOCK, 3 * REDUCE_BLOCK, 16 * REDUCE_BLOCK};
    enum hvd_dtype dtype = types[_i];
    int64_t bytes = element_types[dtype].bytes;
    double whole[3] = {0};
    fill(dtype, a, MOST, 1);
    fill(dtype, b, MOST, 2);
    reduce_dots(dtype, a, b, MOST, whole);
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
        double pieces[3] = {0};
        for (int64_t i = 0; i < MOST; i += steps[s]) {
            int64_t some = MOST - i < steps[s] ? MOST - i : steps[s];
            reduce_dots(dtype, a + i * bytes, b + i * bytes, some, pieces);
        }
        ck_assert_mem_eq(pieces, whole, sizeof(whole));
    }
    double moved[3] = {0};
    memmove(a + 1, a, (size_t)(MOST * bytes));
    reduce_dots(dtype, a + 1, b, MOST, moved);
    ck_assert_mem_eq(moved, whole, sizeof(whole));
}
END_TEST

/* a.a in the order that the source gives: 8 lanes of a block of 64 elements, each of 4 pairs of them. */
static double ordered_dot(enum hvd_dtype dtype, const void *a, int64_t count)
{
    volatile double sum = 0;
    for (int64_t block = 0; block < count; block += 64) {
        volatile double lanes[8], p[64] = {0};
        for (int64_t i = block; i < block + 64 && i < count; i++)
            p[i - block] = element_at(dtype, a, i).real * element_at(dtype, a, i).real;
        for (int i = 0; i < 8; i++)
            lanes[i] = ((p[i] + p[i + 8]) + (p[i + 16] + p[i + 24])) +
                       ((p[i + 32] + p[i + 40]) + (p[i + 48] + p[i + 56]));
        sum +=
            ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    }
    return sum;
}

/* Whatever the compiler and the machine make of it. Another order would show in one of the lengths. */
START_TEST(adds_in_the_order_of_lanes)
{
    static vector a;
    enum hvd_dtype dtype = types[_i];
    for (int64_t count = 0; count <= MOST; count++) {
        double dots[3] = {0};
        fill(dtype, a, count, (uint64_t)count);
        double expected = ordered_dot(dtype, a, count);
        reduce_dots(dtype, a, a, count, dots);
        if (dots[0] != expected || dots[1] != expected || dots[2] != expected)
            ck_abort_msg("%d elements: %a %a %a, expected %a", (int)count, dots[0], dots[1], dots[2],
                         expected);
    }
}
END_TEST

/* Which vector the sum goes to. */
enum { APART, LEFT, RIGHT, PLACES };

START_TEST(blends_like_the_plain_loop)
{
    static vector a, b, out, expected;
    char *const places[PLACES] = {[APART] = out, [LEFT] = a, [RIGHT] = b};
    enum hvd_dtype dtype = types[_i / PLACES];
    char *place = places[_i % PLACES] + _i % 2;
    for (int count = 0; count < 40; count++) {
        fill(dtype, a + _i % 2, count, 1);
        fill(dtype, b + _i % 2, count, 2);
        for (int i = 0; i < count; i++) {
            volatile double left = element_at(dtype, a + _i % 2, i).real * 0.7;
            volatile double right = element_at(dtype, b + _i % 2, i).real * -1.3;
            volatile double sum = left + right;
            element_put(dtype, expected, i, (struct element){.real = sum});
        }
        reduce_blend(dtype, place, a + _i % 2, b + _i % 2, (const double[]){0.7, -1.3}, count);
        ck_assert_mem_eq(place, expected, (size_t)(count * element_types[dtype].bytes));
    }
}
END_TEST

static void fill_suite(Suite *suite)
{
    int count = sizeof(types) / sizeof(types[0]);
    TCase *tcase = tcase_create("adasum");
    tcase_add_loop_test(tcase, multiplies_like_the_plain_loop, 0, count);
    tcase_add_loop_test(tcase, cuts_and_places_change_no_bit, 0, count);
    tcase_add_loop_test(tcase, adds_in_the_order_of_lanes, 0, count);
    tcase_add_loop_test(tcase, blends_like_the_plain_loop, 0, count * PLACES);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("adasum", fill_suite);
}
