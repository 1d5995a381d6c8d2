/* test_kernels.c: every target that this processor has makes the same bits as the plain one, which other
 * tests compare with the reference; and which of them is chosen. */
#include "config.h"

#include "unit.h"

#include <stdio.h>

#include "elements.h"
#include "backend/arith/kernels.h"
#include "base/dtype.h"
#include "backend/arith/reduce.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#define FEW     130  /* more than two unrolled loops of the widest registers, and what is left of them */
#define MOST    5003 /* more than a cache line of pages, and odd */
#define HALVES  65536
#define GUARD   0x5a
#define OFFSETS 5

/* Room for [MOST] elements of any type from an odd byte on, and for what nobody may write. */
typedef char vector[OFFSETS + MOST * sizeof(double) + 64];

/* How far from an aligned place results, left and right operands lie. */
static const int offsets[OFFSETS][3] = {{0, 0, 0}, {1, 0, 0}, {0, 3, 1}, {4, 2, 1}, {3, 3, 3}};

static const int64_t large[] = {511, 512, 1025, MOST};

/* All counts up to FEW, then the large ones; -1 at the end. */
static int64_t count_at(int i)
{
    int many = i - FEW - 1;
    return many < 0 ? i : many < (int)(sizeof(large) / sizeof(large[0])) ? large[many] : -1;
}

/* With more NaN than chance has it, quiet and signalling, of both signs. */
static void fill(enum hvd_dtype dtype, void *data, int64_t count, uint64_t seed)
{
    element_fill(dtype, data, count, seed);
    for (int64_t i = (int64_t)seed * 3; i < count && element_types[dtype].is_real; i += 7 + (int64_t)seed) {
        int precision = element_types[dtype].precision;
        uint64_t quiet = i % 2 == 0 ? UINT64_C(1) << (precision - 2) : 0;
        uint64_t bits = bits_of_real(dtype, INFINITY) | quiet | (uint64_t)(i % 3 + 1);
        bits |= i % 5 == 0 ? UINT64_C(1) << (element_types[dtype].bytes * 8 - 1) : 0;
        memcpy((char *)data + i * element_types[dtype].bytes, &bits, (size_t)element_types[dtype].bytes);
    }
}

static bool is_nan(enum hvd_dtype dtype, const void *data, int64_t i)
{
    return element_types[dtype].is_real && isnan(element_at(dtype, data, i).real);
}

static void assert_guarded(const char *data, const char *begin, size_t bytes)
{
    for (const char *at = data; at < data + sizeof(vector); at++)
        if (*at != GUARD && (at < begin || at >= begin + bytes))
            ck_abort_msg("a byte %d from the vector's begin was written", (int)(at - begin));
}

/* ---- Folds and maps ------------------------------------------------------------------------- */

struct fold {
    const struct kernels *tested;
    enum hvd_dtype dtype;
    enum hvd_op op;
    int64_t count;
    const char *left, *right, *expected;
};

/* The same bits; of two NaN either. */
static void assert_folded(const struct fold *fold, const char *found)
{
    for (int64_t i = 0; i < fold->count; i++) {
        uint64_t bits = element_bits(fold->dtype, found, i);
        uint64_t expected = element_bits(fold->dtype, fold->expected, i);
        bool two = is_nan(fold->dtype, fold->left, i) && is_nan(fold->dtype, fold->right, i);
        if (bits != expected && !(two && is_nan(fold->dtype, found, i)))
            ck_abort_msg("%s: %s of %s: element %d of %d is %#llx, expected %#llx of %#llx and %#llx",
                         fold->tested->name, op_name(fold->op), dtype_name(fold->dtype), (int)i,
                         (int)fold->count, (unsigned long long)bits, (unsigned long long)expected,
                         (unsigned long long)element_bits(fold->dtype, fold->left, i),
                         (unsigned long long)element_bits(fold->dtype, fold->right, i));
    }
}

/* Apart, and in place of either operand. */
static void check_fold(const struct fold *fold, const int offset[3])
{
    static vector room;
    kernel_fold_f *kernel = fold->tested->arith[fold->dtype].fold;
    size_t bytes = (size_t)fold->count * dtype_bytes(fold->dtype);
    char *out = room + offset[0];
    memset(room, GUARD, sizeof(room));
    kernel(fold->op, out, fold->left, fold->right, fold->count);
    assert_folded(fold, out);
    assert_guarded(room, out, bytes);
    memcpy(out, fold->left, bytes);
    kernel(fold->op, out, out, fold->right, fold->count);
    assert_folded(fold, out);
    memcpy(out, fold->right, bytes);
    kernel(fold->op, out, fold->left, out, fold->count);
    assert_folded(fold, out);
    assert_guarded(room, out, bytes);
}

static void check_folds(const struct kernels *tested, enum hvd_dtype dtype, int64_t count,
                        const int offset[3])
{
    static vector left, right, expected;
    fill(dtype, left + offset[1], count, 1);
    fill(dtype, right + offset[2], count, 2);
    for (int op = HVD_SUM; op_name((enum hvd_op)op) != NULL; op++) {
        if (!reduce_can((enum hvd_op)op, dtype))
            continue;
        struct fold fold = {tested,  dtype, (enum hvd_op)op, count, left + offset[1], right + offset[2],
                            expected};
        kernels_plain.arith[dtype].fold(fold.op, expected, fold.left, fold.right, count);
        check_fold(&fold, offset);
    }
}

/* The type of the arithmetic of [dtype]. */
static enum hvd_dtype arithmetic_of(enum hvd_dtype dtype)
{
    return reduce_partial(dtype);
}

/* Loops over types: those of narrow types are float32's. */
START_TEST(folds_like_plain)
{
    for (int t = 0; kernels_usable(t) != NULL; t++) {
        const struct kernels *tested = kernels_usable(t);
        ck_assert_ptr_eq(tested->arith[_i].fold, tested->arith[arithmetic_of((enum hvd_dtype)_i)].fold);
        for (int i = 0; count_at(i) >= 0; i++)
            check_folds(tested, arithmetic_of((enum hvd_dtype)_i), count_at(i), offsets[i % OFFSETS]);
    }
}
END_TEST

static void check_map(const char *what, const struct kernels *tested, enum hvd_dtype dtype, int64_t count,
                      double number)
{
    static vector in, room, expected;
    const int *offset = offsets[count % OFFSETS];
    bool divides = strcmp(what, "divide") == 0;
    kernel_map_f *kernel = divides ? tested->arith[dtype].divide : tested->arith[dtype].scale;
    kernel_map_f *plain = divides ? kernels_plain.arith[dtype].divide : kernels_plain.arith[dtype].scale;
    size_t bytes = (size_t)count * dtype_bytes(dtype);
    fill(dtype, in + offset[1], count, 1);
    plain(expected, in + offset[1], count, number);
    memset(room, GUARD, sizeof(room));
    kernel(room + offset[0], in + offset[1], count, number);
    for (int place = 0; place < 2; place++) { /* then in place */
        for (int64_t i = 0; i < count; i++)
            if (element_bits(dtype, room + offset[0], i) != element_bits(dtype, expected, i))
                ck_abort_msg("%s: %s %s by %g: element %d of %d is %#llx, expected %#llx of %#llx",
                             tested->name, what, dtype_name(dtype), number, (int)i, (int)count,
                             (unsigned long long)element_bits(dtype, room + offset[0], i),
                             (unsigned long long)element_bits(dtype, expected, i),
                             (unsigned long long)element_bits(dtype, in + offset[1], i));
        assert_guarded(room, room + offset[0], bytes);
        memcpy(room + offset[0], in + offset[1], bytes);
        kernel(room + offset[0], room + offset[0], count, number);
    }
}

START_TEST(scales_and_divides_like_plain)
{
    static const double factors[] = {0, 0.5, -3, 1.0 / 3, 1e9, -1e300, 1e-9, 1e-42, -0x1p-1074};
    static const double divisors[] = {2, 3, 7, 8, 1000, 65537, 16777217, INT32_MAX};
    enum hvd_dtype dtype = arithmetic_of((enum hvd_dtype)_i);
    for (int t = 0; kernels_usable(t) != NULL; t++) {
        for (int i = 0; count_at(i) >= 0; i++) {
            double factor = factors[i % (int)(sizeof(factors) / sizeof(factors[0]))];
            double divisor = divisors[i % (int)(sizeof(divisors) / sizeof(divisors[0]))];
            check_map("scale", kernels_usable(t), dtype, count_at(i), factor);
            check_map("divide", kernels_usable(t), dtype, count_at(i), divisor);
        }
        for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++)
            check_map("scale", kernels_usable(t), dtype, MOST, factors[i]);
        for (size_t i = 0; i < sizeof(divisors) / sizeof(divisors[0]); i++)
            check_map("divide", kernels_usable(t), dtype, MOST, divisors[i]);
    }
}
END_TEST

/* A sum that is scaled: as both by themselves, apart and in place of either operand. */
static void check_sum_scale(const struct kernels *tested, enum hvd_dtype dtype, int64_t count, double number)
{
    static vector left, right, room, expected;
    const int *offset = offsets[count % OFFSETS];
    size_t bytes = (size_t)count * dtype_bytes(dtype);
    char *out = room + offset[0], *a = left + offset[1], *b = right + offset[2];
    fill(dtype, a, count, 1);
    fill(dtype, b, count, 2);
    kernels_plain.arith[dtype].fold(HVD_SUM, expected, a, b, count);
    kernels_plain.arith[dtype].scale(expected, expected, count, number);
    for (int place = 0; place < 3; place++) {
        memset(room, GUARD, sizeof(room));
        if (place > 0)
            memcpy(out, place == 1 ? a : b, bytes);
        tested->arith[dtype].sum_scale(out, place == 1 ? out : a, place == 2 ? out : b, count, number);
        for (int64_t i = 0; i < count; i++)
            if (element_bits(dtype, out, i) != element_bits(dtype, expected, i))
                ck_abort_msg("%s: sum of %s by %g: element %d of %d is %#llx, expected %#llx", tested->name,
                             dtype_name(dtype), number, (int)i, (int)count,
                             (unsigned long long)element_bits(dtype, out, i),
                             (unsigned long long)element_bits(dtype, expected, i));
        assert_guarded(room, out, bytes);
    }
}

START_TEST(scales_sums_like_plain_in_two_steps)
{
    static const double factors[] = {0.5, 0.25, 1.0 / 3, -1e9, 0};
    for (int t = 0; kernels_usable(t) != NULL; t++) {
        for (int i = 0; count_at(i) >= 0; i++)
            check_sum_scale(kernels_usable(t), arithmetic_of((enum hvd_dtype)_i), count_at(i),
                            factors[i % (int)(sizeof(factors) / sizeof(factors[0]))]);
    }
}
END_TEST

/* A whole number of up to 16 bits by all that could be too much for what its quotient is made in. */
START_TEST(divides_whole_numbers_exactly)
{
    static int16_t all[HALVES], found[HALVES];
    for (int i = 0; i < HALVES; i++)
        all[i] = (int16_t)i;
    for (int t = 0; kernels_usable(t) != NULL; t++) {
        for (int by = 1; by < INT32_MAX / 2; by += by < 300 ? 1 : by / 5) {
            kernels_usable(t)->arith[HVD_INT16].divide(found, all, HALVES, by);
            for (int i = 0; i < HALVES; i++)
                if (found[i] != all[i] / by)
                    ck_abort_msg("%d / %d is %d", all[i], by, found[i]);
            kernels_usable(t)->arith[HVD_UINT16].divide(found, all, HALVES, by);
            for (int i = 0; i < HALVES; i++)
                if ((uint16_t)found[i] != i / by)
                    ck_abort_msg("%d / %d is %d", i, by, (uint16_t)found[i]);
        }
    }
}
END_TEST

/* ---- Narrow types --------------------------------------------------------------------------- */

static const enum hvd_dtype narrow_types[] = {HVD_FLOAT16, HVD_BFLOAT16, HVD_FLOAT8_E4M3, HVD_FLOAT8_E5M2};
#define NARROW_TYPES (int)(sizeof(narrow_types) / sizeof(narrow_types[0]))

/* All values of [dtype], those of 8 bits many times. */
static void fill_all(enum hvd_dtype dtype, uint16_t all[HALVES])
{
    for (int i = 0; i < HALVES; i++)
        memcpy((char *)all + (size_t)i * dtype_bytes(dtype), &i, dtype_bytes(dtype));
}

static void assert_bits(const struct kernels *tested, const void *found, const void *expected, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const char *)found)[i] != ((const char *)expected)[i])
            ck_abort_msg("%s: byte %zu of %zu is not as expected", tested->name, i, bytes);
}

/* NaN too. */
static void check_widening(enum hvd_dtype dtype)
{
    static uint16_t all[HALVES];
    static uint32_t expected[HALVES], found[HALVES];
    fill_all(dtype, all);
    kernels_plain.widen[dtype](expected, all, HALVES);
    for (int t = 0; kernels_usable(t) != NULL; t++) {
        kernels_usable(t)->widen[dtype](found, all, HALVES);
        assert_bits(kernels_usable(t), found, expected, sizeof(expected));
    }
}

START_TEST(widens_like_plain)
{
    check_widening(narrow_types[_i]);
}
END_TEST

/* All upper halves of a float32 with lower halves at which something may turn, and with some of chance. */
static void check_narrowing(enum hvd_dtype dtype)
{
    static const uint32_t turns[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2fff,
                                     0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xffff};
    static uint32_t singles[HALVES];
    static uint16_t expected[HALVES], found[HALVES];
    uint64_t state = 1;
    for (size_t turn = 0; turn < 32; turn++) {
        for (uint32_t upper = 0; upper < HALVES; upper++)
            singles[upper] =
                upper << 16 | (turn < 16 ? turns[turn] : (uint32_t)(element_random(&state) >> 48));
        kernels_plain.narrow[dtype](expected, singles, HALVES);
        for (int t = 0; kernels_usable(t) != NULL; t++) {
            kernels_usable(t)->narrow[dtype](found, singles, HALVES);
            assert_bits(kernels_usable(t), found, expected, HALVES * dtype_bytes(dtype));
        }
    }
}

START_TEST(narrows_like_plain)
{
    check_narrowing(narrow_types[_i]);
}
END_TEST

static void check_conversions(const struct kernels *tested, enum hvd_dtype dtype, int64_t count,
                              const int offset[3])
{
    static vector narrow, wide, room, expected;
    fill(dtype, narrow + offset[1], count, 1);
    fill(HVD_FLOAT32, wide + offset[2], count, 2);
    kernels_plain.widen[dtype](expected, narrow + offset[1], count);
    memset(room, GUARD, sizeof(room));
    tested->widen[dtype](room + offset[0], narrow + offset[1], count);
    assert_bits(tested, room + offset[0], expected, (size_t)count * 4);
    assert_guarded(room, room + offset[0], (size_t)count * 4);
    kernels_plain.narrow[dtype](expected, wide + offset[2], count);
    memset(room, GUARD, sizeof(room));
    tested->narrow[dtype](room + offset[0], wide + offset[2], count);
    assert_bits(tested, room + offset[0], expected, (size_t)count * dtype_bytes(dtype));
    assert_guarded(room, room + offset[0], (size_t)count * dtype_bytes(dtype));
}

START_TEST(converts_any_length_and_place_like_plain)
{
    for (int t = 0; kernels_usable(t) != NULL; t++)
        for (int i = 0; count_at(i) >= 0; i++)
            check_conversions(kernels_usable(t), narrow_types[_i], count_at(i), offsets[i % OFFSETS]);
}
END_TEST

/* A program may have its processor take subnormal numbers for 0: values of narrow types stay what they are.
 */
START_TEST(converts_alike_where_subnormals_are_flushed)
{
#ifdef __x86_64__
    enum { FLUSH = 0x8000, ZEROS = 0x0040 };
    static uint16_t all[HALVES];
    static uint32_t expected[HALVES], found[HALVES];
    unsigned csr = _mm_getcsr();
    fill_all(narrow_types[_i], all);
    kernels_plain.widen[narrow_types[_i]](expected, all, HALVES);
    _mm_setcsr(csr | FLUSH | ZEROS);
    kernels_plain.widen[narrow_types[_i]](found, all, HALVES);
    check_widening(narrow_types[_i]);
    check_narrowing(narrow_types[_i]);
    _mm_setcsr(csr);
    assert_bits(&kernels_plain, found, expected, sizeof(expected));
#endif
}
END_TEST

/* ---- Adasum --------------------------------------------------------------------------------- */

static const enum hvd_dtype reals[] = {HVD_FLOAT32, HVD_FLOAT64};

/* Finite numbers of many sizes. */
static void fill_finite(enum hvd_dtype dtype, void *data, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = element_random(&seed);
        double value = ldexp((double)(bits >> 12) - ldexp(1, 51), -51 + (int)(bits & 15) - 6);
        element_put(dtype, data, i, (struct element){.real = value});
    }
}

static void check_adasum(const struct kernels *tested, enum hvd_dtype dtype, int64_t count,
                         const int offset[3])
{
    static vector a, b, room, expected;
    static const double factors[2] = {0.7, -1.3};
    double dots[3] = {1, 2, 3}, expected_dots[3] = {1, 2, 3};
    fill_finite(dtype, a + offset[1], count, 1);
    fill_finite(dtype, b + offset[2], count, 2);
    kernels_plain.dots(dtype, a + offset[1], b + offset[2], count, expected_dots);
    tested->dots(dtype, a + offset[1], b + offset[2], count, dots);
    assert_bits(tested, dots, expected_dots, sizeof(dots));
    kernels_plain.blend(dtype, expected, a + offset[1], b + offset[2], factors, count);
    memset(room, GUARD, sizeof(room));
    tested->blend(dtype, room + offset[0], a + offset[1], b + offset[2], factors, count);
    assert_bits(tested, room + offset[0], expected, (size_t)count * dtype_bytes(dtype));
    assert_guarded(room, room + offset[0], (size_t)count * dtype_bytes(dtype));
}

START_TEST(adasum_like_plain)
{
    for (int t = 0; kernels_usable(t) != NULL; t++)
        for (int i = 0; count_at(i) >= 0; i++)
            check_adasum(kernels_usable(t), reals[_i], count_at(i), offsets[i % OFFSETS]);
}
END_TEST

/* ---- The choice ----------------------------------------------------------------------------- */

/* What Linux says of the first processor. */
static bool has_flag(const char *flag)
{
    char word[64];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && !found && fscanf(file, "%63s", word) == 1)
        found = strcmp(word, flag) == 0;
    if (file != NULL)
        fclose(file);
    return found;
}

static bool has_all(const char *const flags[])
{
    while (*flags != NULL && has_flag(*flags))
        flags++;
    return *flags == NULL;
}

/* Each that was compiled and that the processor has all instructions for, the fastest first; and plain. */
START_TEST(finds_what_the_processor_has)
{
    int next = 0;
#ifdef HAVE_TARGET_AVX512
    static const char *const avx512[] = {"avx2",     "f16c",     "avx512f",      "avx512bw",
                                         "avx512dq", "avx512vl", "avx512_vbmi2", NULL};
    if (has_all(avx512))
        ck_assert_ptr_eq(kernels_usable(next++), &kernels_avx512);
#endif
#ifdef HAVE_TARGET_AVX2
    static const char *const avx2[] = {"avx2", "f16c", NULL};
    if (has_all(avx2))
        ck_assert_ptr_eq(kernels_usable(next++), &kernels_avx2);
#endif
    ck_assert_ptr_eq(kernels_usable(next), &kernels_plain);
    ck_assert_ptr_null(kernels_usable(next + 1));
    ck_assert_ptr_eq(kernels_best(), kernels_usable(0));
    ck_assert_ptr_eq(kernels_best(), kernels_usable(0));
    ck_assert_str_eq(kernels_plain.name, "plain");
}
END_TEST

static void fill_suite(Suite *suite)
{
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, folds_like_plain, 0, ELEMENT_DTYPES);
    tcase_add_loop_test(tcase, scales_and_divides_like_plain, 0, ELEMENT_DTYPES);
    tcase_add_loop_test(tcase, scales_sums_like_plain_in_two_steps, 0, ELEMENT_DTYPES);
    tcase_add_test(tcase, divides_whole_numbers_exactly);
    tcase_add_loop_test(tcase, widens_like_plain, 0, NARROW_TYPES);
    tcase_add_loop_test(tcase, narrows_like_plain, 0, NARROW_TYPES);
    tcase_add_loop_test(tcase, converts_any_length_and_place_like_plain, 0, NARROW_TYPES);
    tcase_add_loop_test(tcase, converts_alike_where_subnormals_are_flushed, 0, NARROW_TYPES);
    tcase_add_loop_test(tcase, adasum_like_plain, 0, 2);
    tcase_add_test(tcase, finds_what_the_processor_has);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("kernels", fill_suite);
}
