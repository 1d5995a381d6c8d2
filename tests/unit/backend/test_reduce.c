/* test_reduce.c: reductions of all types by all operations, element by element against the plain reference.
 */
#include "unit.h"

#include "elements.h"
#include "base/dtype.h"
#include "backend/arith/reduce.h"

#define MOST  1300 /* more than two blocks of what is done block by block */
#define RANKS 3
#define GUARD 0x5a

/* Room for [MOST] elements of any type from any byte on, and one byte that nobody may write. */
typedef char vector[1 + MOST * sizeof(double) + 1];

/* Check is only told of failures: it writes each assertion to a file. */
static void assert_same(enum hvd_dtype dtype, const void *found, const void *expected, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!element_same(dtype, found, expected, i))
            ck_abort_msg("%s element %d of %d: %#llx, expected %#llx", dtype_name(dtype), (int)i, (int)count,
                         (unsigned long long)element_bits(dtype, found, i),
                         (unsigned long long)element_bits(dtype, expected, i));
}

/* The same of partial results, where any byte but 0 is true. */
static void assert_same_partial(enum hvd_dtype dtype, const void *found, const void *expected, int64_t count)
{
    if (dtype != HVD_BOOL) {
        assert_same(dtype, found, expected, count);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        if (element_at(dtype, found, i).whole != element_at(dtype, expected, i).whole)
            ck_abort_msg("bool element %d of %d is not as expected", (int)i, (int)count);
}

/* The three steps, as the header says it. */
static void plain_begin(const struct reduction *r, void *partial, const void *input, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        element_put(r->partial, partial, i,
                    element_scaled(r->dtype, element_at(r->dtype, input, i), r->prescale));
}

static void plain_fold(const struct reduction *r, void *partial, const void *input, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        struct element right = element_scaled(r->dtype, element_at(r->dtype, input, i), r->prescale);
        struct element left = element_at(r->partial, partial, i);
        element_put(r->partial, partial, i, element_folded(r->dtype, r->op, left, right));
    }
}

static void plain_finish(const struct reduction *r, void *result, const void *partial, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        struct element value = element_at(r->partial, partial, i);
        if (r->op == HVD_AVERAGE)
            value = element_divided(r->dtype, value, r->ranks);
        element_put(r->dtype, result, i, element_scaled(r->dtype, value, r->postscale));
    }
}

static const double factors[] = {1, 0.5, -3, 1.0 / 3, 1e9, -1e300, 1e-9};
#define FACTORS (int)(sizeof(factors) / sizeof(factors[0]))

/* A type, an operation, and for narrow types whether partial results are float32. */
#define CASES (ELEMENT_DTYPES * (HVD_BXOR + 1) * 2)

/* Case [i]; false where there is no such reduction. */
static bool reduction_at(int i, struct reduction *reduction)
{
    enum hvd_dtype dtype = (enum hvd_dtype)(i / 2 % ELEMENT_DTYPES);
    enum hvd_op op = (enum hvd_op)(i / 2 / ELEMENT_DTYPES);
    *reduction = (struct reduction){dtype, dtype, op, 1, 1, RANKS};
    if (i % 2 == 1)
        reduction->partial = reduce_partial(dtype);
    return reduce_can(op, dtype) && (dtype_is_narrow(dtype) || i % 2 == 0);
}

static void assert_steps(const struct reduction *r, int64_t count, int offset)
{
    static vector input, partial, expected, result;
    size_t partial_bytes = (size_t)count * dtype_bytes(r->partial);
    size_t bytes = (size_t)count * dtype_bytes(r->dtype);
    memset(partial, GUARD, sizeof(partial));
    memset(result, GUARD, sizeof(result));
    element_fill(r->dtype, input + offset, count, 1);
    reduce_begin(r, partial + offset, input + offset, count);
    plain_begin(r, expected, input + offset, count);
    assert_same_partial(r->partial, partial + offset, expected, count);
    for (int rank = 1; rank < RANKS; rank++) {
        element_fill(r->dtype, input + offset, count, (uint64_t)rank + 1);
        reduce_fold(r, partial + offset, partial + offset, input + offset, count);
        plain_fold(r, expected, input + offset, count);
        assert_same_partial(r->partial, partial + offset, expected, count);
    }
    reduce_finish(r, result + offset, partial + offset, count);
    plain_finish(r, input, expected, count);
    assert_same(r->dtype, result + offset, input, count);
    ck_assert_int_eq(partial[(size_t)offset + partial_bytes], GUARD);
    ck_assert_int_eq(result[(size_t)offset + bytes], GUARD);
}

/* Every factor on either side; every length from none to past the vector registers, and one of several
 * blocks. */
START_TEST(reduces_like_the_plain_loop)
{
    struct reduction reduction;
    if (!reduction_at(_i, &reduction))
        return;
    for (int pre = 0; pre < FACTORS; pre++) {
        reduction.prescale = factors[pre];
        reduction.ranks = RANKS + pre % 2; /* a power of two, or not */
        for (int post = 0; post < 2; post++) {
            reduction.postscale = post == 0 ? 1 : factors[(pre + 3) % FACTORS];
            assert_steps(&reduction, MOST, pre % 2);
        }
    }
    for (int count = 0; count < 40; count++) {
        reduction.prescale = factors[count % 3];
        reduction.postscale = factors[count % 2];
        assert_steps(&reduction, count, count % 2);
    }
}
END_TEST

/* Reduce two inputs in pieces of [step] elements, all in the same places where [in_place]. */
static void reduce_in_pieces(const struct reduction *r, void *result, const void *left, const void *right,
                             int64_t step)
{
    static vector partial;
    int64_t bytes = (int64_t)dtype_bytes(r->dtype);
    for (int64_t i = 0; i < MOST; i += step) {
        int64_t some = MOST - i < step ? MOST - i : step;
        reduce_begin(r, partial, (const char *)left + i * bytes, some);
        reduce_fold(r, partial, partial, (const char *)right + i * bytes, some);
        reduce_finish(r, (char *)result + i * bytes, partial, some);
    }
}

START_TEST(cuts_change_no_bit)
{
    static vector left, right, whole, pieces;
    static const int64_t steps[] = {1, 7, 64, 511, 513, 1024};
    struct reduction reduction;
    if (!reduction_at(_i, &reduction))
        return;
    reduction.prescale = 1.0 / 3;
    reduction.postscale = 0.7;
    element_fill(reduction.dtype, left, MOST, 1);
    element_fill(reduction.dtype, right, MOST, 2);
    reduce_in_pieces(&reduction, whole, left, right, MOST);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        reduce_in_pieces(&reduction, pieces, left, right, steps[i]);
        assert_same(reduction.dtype, pieces, whole, MOST);
    }
}
END_TEST

/* What the header allows: out is left, or input, or both; begin and finish in place. */
START_TEST(works_in_place)
{
    static vector left, right, apart, place;
    struct reduction reduction;
    if (!reduction_at(_i, &reduction))
        return;
    bool same = reduction.partial == reduction.dtype;
    for (int f = 0; f < 2; f++) {
        reduction.prescale = reduction.postscale = factors[f];
        element_fill(reduction.partial, left, MOST, 1);
        element_fill(reduction.dtype, right, MOST, 2);
        reduce_fold(&reduction, apart, left, right, MOST);
        memcpy(place, left, sizeof(vector));
        reduce_fold(&reduction, place, place, right, MOST);
        assert_same(reduction.partial, place, apart, MOST);
        if (!same)
            continue;
        memcpy(place, right, sizeof(vector));
        reduce_fold(&reduction, place, left, place, MOST);
        assert_same(reduction.partial, place, apart, MOST);
        reduce_fold(&reduction, apart, left, left, MOST);
        memcpy(place, left, sizeof(vector));
        reduce_fold(&reduction, place, place, place, MOST);
        assert_same(reduction.partial, place, apart, MOST);
        reduce_begin(&reduction, apart, right, MOST);
        memcpy(place, right, sizeof(vector));
        reduce_begin(&reduction, place, place, MOST);
        assert_same(reduction.partial, place, apart, MOST);
        reduce_finish(&reduction, apart, left, MOST);
        memcpy(place, left, sizeof(vector));
        reduce_finish(&reduction, place, place, MOST);
        assert_same(reduction.dtype, place, apart, MOST);
    }
}
END_TEST

/* All at once, as begin, fold and finish make it one by one. */
static void reduce_by_steps(const struct reduction *r, void *result, const void *const *inputs,
                            int input_count, int64_t count)
{
    static vector partial;
    reduce_begin(r, partial, inputs[0], count);
    for (int i = 1; i < input_count; i++)
        reduce_fold(r, partial, partial, inputs[i], count);
    reduce_finish(r, result, partial, count);
}

#define INPUTS 4

/* What the factors, the cuts and the number of inputs are. */
static void each_reduction_of_inputs(struct reduction reduction,
                                     void (*check)(const struct reduction *r, int input_count, int64_t count))
{
    static const int64_t counts[] = {0, 1, 63, 256, 512, 513, MOST};
    for (int f = 0; f < 4; f++) {
        reduction.prescale = f % 2 == 0 ? 1 : 1.0 / 3;
        reduction.postscale = f / 2 == 0 ? 1 : 0.7;
        for (int input_count = 1; input_count <= INPUTS; input_count++) {
            reduction.ranks = input_count;
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
                check(&reduction, input_count, counts[i]);
        }
    }
}

static void check_end(const struct reduction *r, int input_count, int64_t count)
{
    static vector left, input, partial, expected, result;
    size_t bytes = (size_t)count * dtype_bytes(r->dtype);
    size_t partial_bytes = (size_t)count * dtype_bytes(r->partial);
    element_fill(r->partial, left, count, (uint64_t)input_count);
    element_fill(r->dtype, input, count, 7);
    reduce_fold(r, partial, left, input, count);
    reduce_finish(r, expected, partial, count);
    memset(result, GUARD, sizeof(result));
    reduce_end(r, result + 1, left, input, count);
    assert_same(r->dtype, result + 1, expected, count);
    ck_assert_int_eq(result[0], GUARD);
    ck_assert_int_eq(result[1 + bytes], GUARD);
    memcpy(result, input, bytes);
    reduce_end(r, result, left, result, count);
    assert_same(r->dtype, result, expected, count);
    if (r->partial != r->dtype)
        return;
    memcpy(result, left, partial_bytes);
    reduce_end(r, result, result, input, count);
    assert_same(r->dtype, result, expected, count);
}

START_TEST(ends_as_fold_and_finish_do)
{
    struct reduction reduction;
    if (reduction_at(_i, &reduction))
        each_reduction_of_inputs(reduction, check_end);
}
END_TEST

/* Apart, then in place of each input, with and without a copy. */
static void check_inputs(const struct reduction *r, int input_count, int64_t count)
{
    static vector rooms[INPUTS], expected, apart, copy;
    const struct reduce_plan steps = reduce_plan_of(r);
    const void *inputs[INPUTS];
    size_t bytes = (size_t)count * dtype_bytes(r->dtype);
    for (int i = 0; i < input_count; i++) {
        inputs[i] = rooms[i] + i % 2;
        element_fill(r->dtype, rooms[i] + i % 2, count, (uint64_t)i + 1);
    }
    reduce_by_steps(r, expected, inputs, input_count, count);
    for (int place = -1; place < input_count; place++) {
        char *out = place < 0 ? apart + 1 : rooms[place] + place % 2;
        memset(copy, GUARD, sizeof(copy));
        out[bytes] = GUARD;
        reduce_inputs(&steps, out, place % 2 == 0 ? copy + 1 : NULL, inputs, input_count, count);
        assert_same(r->dtype, out, expected, count);
        ck_assert_int_eq(out[bytes], GUARD);
        if (place % 2 == 0)
            ck_assert_mem_eq(copy + 1, out, bytes);
        ck_assert_int_eq(copy[0], GUARD);
        ck_assert_int_eq(copy[1 + bytes], GUARD);
        if (place >= 0)
            element_fill(r->dtype, out, count, (uint64_t)place + 1);
    }
}

START_TEST(reduces_inputs_as_the_steps_do)
{
    struct reduction reduction;
    if (reduction_at(_i, &reduction))
        each_reduction_of_inputs(reduction, check_inputs);
}
END_TEST

/* Nothing of no elements, at no place. */
START_TEST(reduces_nothing)
{
    struct reduction reduction;
    double dots[3] = {1, 2, 3};
    if (!reduction_at(_i, &reduction))
        return;
    for (int f = 0; f < 2; f++) {
        reduction.prescale = reduction.postscale = factors[f];
        reduce_begin(&reduction, NULL, NULL, 0);
        reduce_fold(&reduction, NULL, NULL, NULL, 0);
        reduce_finish(&reduction, NULL, NULL, 0);
        reduce_end(&reduction, NULL, NULL, NULL, 0);
        const struct reduce_plan steps = reduce_plan_of(&reduction);
        reduce_inputs(&steps, NULL, NULL, (const void *const[]){NULL, NULL}, 2, 0);
        reduce_convert(reduction.partial, &reduction, reduction.dtype, NULL, 0);
    }
    reduce_dots(HVD_FLOAT32, NULL, NULL, 0, dots);
    reduce_blend(HVD_FLOAT32, NULL, NULL, NULL, dots, 0);
    ck_assert(dots[0] == 1 && dots[1] == 2 && dots[2] == 3);
}
END_TEST

START_TEST(says_what_there_is)
{
    for (int dtype = 0; dtype < ELEMENT_DTYPES; dtype++) {
        for (int op = 0; op <= HVD_ADASUM; op++) {
            bool can = op != HVD_ADASUM && !(op == HVD_AVERAGE && dtype == HVD_BOOL);
            ck_assert_int_eq(reduce_can((enum hvd_op)op, (enum hvd_dtype)dtype), can);
        }
        bool narrow = dtype_is_narrow((enum hvd_dtype)dtype);
        enum hvd_dtype partial = narrow ? HVD_FLOAT32 : (enum hvd_dtype)dtype;
        ck_assert_int_eq(reduce_partial((enum hvd_dtype)dtype), partial);
        struct reduction reduction = {(enum hvd_dtype)dtype, partial, HVD_SUM, 1, 2, RANKS};
        ck_assert_int_eq(reduce_input_is_partial(&reduction), !narrow);
        reduction.partial = (enum hvd_dtype)dtype;
        ck_assert_int_eq(reduce_input_is_partial(&reduction), true);
        reduction.prescale = 0.5;
        ck_assert_int_eq(reduce_input_is_partial(&reduction), dtype == HVD_BOOL);
    }
    ck_assert(!reduce_can(HVD_SUM, (enum hvd_dtype)ELEMENT_DTYPES));
    ck_assert(!reduce_can(HVD_SUM, (enum hvd_dtype) - 1));
    ck_assert(!reduce_can((enum hvd_op) - 1, HVD_INT32));
}
END_TEST

/* Two elements reduced, written down by hand. */
static const struct {
    enum hvd_dtype dtype;
    enum hvd_op op;
    struct element left, right;
    double prescale, postscale;
    struct element expected;
} examples[] = {
    {HVD_INT32, HVD_SUM, {.whole = INT32_MAX}, {.whole = 1}, 1, 1, {.whole = INT32_MIN}},
    {HVD_INT64, HVD_SUM, {.whole = INT64_MIN}, {.whole = -1}, 1, 1, {.whole = INT64_MAX}},
    {HVD_INT64, HVD_PRODUCT, {.whole = INT64_MIN}, {.whole = -1}, 1, 1, {.whole = INT64_MIN}},
    {HVD_UINT8, HVD_SUM, {.whole = 200}, {.whole = 100}, 1, 1, {.whole = 44}},
    {HVD_INT8, HVD_SUM, {.whole = 100}, {.whole = 100}, 1, 1, {.whole = -56}},
    {HVD_UINT16, HVD_PRODUCT, {.whole = 65535}, {.whole = 65535}, 1, 1, {.whole = 1}},
    {HVD_UINT8, HVD_MAX, {.whole = 200}, {.whole = 100}, 1, 1, {.whole = 200}},
    {HVD_INT8, HVD_MAX, {.whole = -56}, {.whole = 100}, 1, 1, {.whole = 100}},
    {HVD_INT16, HVD_MIN, {.whole = -5}, {.whole = 5}, 1, 1, {.whole = -5}},
    {HVD_INT32, HVD_AVERAGE, {.whole = -1}, {.whole = -2}, 1, 1, {.whole = -1}},
    {HVD_INT64, HVD_AVERAGE, {.whole = -7}, {.whole = 0}, 1, 1, {.whole = -3}},
    {HVD_INT64, HVD_AVERAGE, {.whole = INT64_MAX - 1}, {.whole = 1}, 1, 1, {.whole = INT64_MAX / 2}},
    {HVD_UINT8, HVD_SUM, {.whole = 200}, {.whole = 0}, 1, 2, {.whole = 255}},
    {HVD_UINT8, HVD_SUM, {.whole = 200}, {.whole = 0}, 1, -2, {.whole = 0}},
    {HVD_UINT8, HVD_SUM, {.whole = 128}, {.whole = 0}, 1, 2, {.whole = 255}},
    {HVD_INT8, HVD_SUM, {.whole = -100}, {.whole = 0}, 2, 1, {.whole = -128}},
    {HVD_INT8, HVD_SUM, {.whole = 64}, {.whole = 0}, 2, 1, {.whole = 127}},
    {HVD_INT16, HVD_SUM, {.whole = -16384}, {.whole = 0}, 2, 1, {.whole = -32768}},
    {HVD_INT32, HVD_SUM, {.whole = -3}, {.whole = 5}, 0.5, 1, {.whole = 1}},
    {HVD_INT32, HVD_MAX, {.whole = INT32_MAX}, {.whole = 0}, 1, 1.5, {.whole = INT32_MAX}},
    {HVD_INT64, HVD_SUM, {.whole = INT64_MAX}, {.whole = 0}, 1, 1e308, {.whole = INT64_MAX}},
    {HVD_INT64, HVD_SUM, {.whole = INT64_MAX}, {.whole = 0}, 1, -1e308, {.whole = INT64_MIN}},
    {HVD_INT64, HVD_SUM, {.whole = INT64_C(1) << 62}, {.whole = 0}, 1, 2, {.whole = INT64_MAX}},
    {HVD_INT64, HVD_SUM, {.whole = INT64_C(1) << 62}, {.whole = 0}, 1, -2, {.whole = INT64_MIN}},
    {HVD_FLOAT32, HVD_MIN, {.real = NAN}, {.real = 1}, 1, 1, {.real = NAN}},
    {HVD_FLOAT32, HVD_MIN, {.real = 1}, {.real = NAN}, 1, 1, {.real = NAN}},
    {HVD_FLOAT64, HVD_MAX, {.real = NAN}, {.real = INFINITY}, 1, 1, {.real = NAN}},
    {HVD_FLOAT64, HVD_MAX, {.real = INFINITY}, {.real = NAN}, 1, 1, {.real = NAN}},
    {HVD_FLOAT16, HVD_MAX, {.real = 2}, {.real = NAN}, 1, 1, {.real = NAN}},
    {HVD_BFLOAT16, HVD_MIN, {.real = NAN}, {.real = 2}, 1, 1, {.real = NAN}},
    {HVD_FLOAT16, HVD_SUM, {.real = 60000}, {.real = 60000}, 1, 0.5, {.real = 60000}},
    {HVD_FLOAT16, HVD_SUM, {.real = 60000}, {.real = 60000}, 1, 1, {.real = INFINITY}},
    {HVD_FLOAT16, HVD_AVERAGE, {.real = 65504}, {.real = 65504}, 1, 1, {.real = 65504}},
    {HVD_FLOAT64, HVD_AVERAGE, {.real = 1}, {.real = 2}, 2, 0.5, {.real = 1.5}},
    {HVD_FLOAT8_E4M3, HVD_SUM, {.real = 300}, {.real = -300}, 2, 1, {.real = 0}},
    {HVD_FLOAT8_E4M3, HVD_SUM, {.real = 300}, {.real = 300}, 1, 0.5, {.real = 288}},
    {HVD_FLOAT8_E4M3, HVD_SUM, {.real = -300}, {.real = -300}, 1, 1, {.real = -448}},
    {HVD_FLOAT8_E4M3, HVD_MAX, {.real = NAN}, {.real = 448}, 1, 1, {.real = NAN}},
    {HVD_FLOAT8_E4M3, HVD_AVERAGE, {.real = 0x1p-9}, {.real = 0}, 1, 1, {.real = 0}},
    {HVD_FLOAT8_E5M2, HVD_PRODUCT, {.real = 57344}, {.real = -2}, 1, 1, {.real = -57344}},
    {HVD_FLOAT8_E5M2, HVD_SUM, {.real = 57344}, {.real = 57344}, 1, 0.5, {.real = 57344}},
    {HVD_FLOAT8_E5M2, HVD_MIN, {.real = -1}, {.real = NAN}, 1, 1, {.real = NAN}},
    {HVD_BOOL, HVD_SUM, {.whole = 2}, {.whole = 0}, 0.25, 0.25, {.whole = 1}},
    {HVD_BOOL, HVD_MAX, {.whole = 0}, {.whole = 0}, 1, 1, {.whole = 0}},
    {HVD_BOOL, HVD_MIN, {.whole = 1}, {.whole = 2}, 1, 1, {.whole = 1}},
    {HVD_BOOL, HVD_PRODUCT, {.whole = 255}, {.whole = 0}, 1, 1, {.whole = 0}},
    {HVD_BOOL, HVD_BAND, {.whole = 2}, {.whole = 1}, 1, 1, {.whole = 1}},
    {HVD_BOOL, HVD_BOR, {.whole = 0}, {.whole = 4}, 1, 1, {.whole = 1}},
    {HVD_BOOL, HVD_BXOR, {.whole = 2}, {.whole = 1}, 1, 1, {.whole = 0}},
    {HVD_UINT8, HVD_BAND, {.whole = 0xcc}, {.whole = 0xaa}, 1, 1, {.whole = 0x88}},
    {HVD_INT16, HVD_BOR, {.whole = -32768}, {.whole = 3}, 1, 1, {.whole = -32765}},
    {HVD_INT64, HVD_BXOR, {.whole = -1}, {.whole = INT64_MIN}, 1, 1, {.whole = INT64_MAX}},
};

START_TEST(reduces_the_examples)
{
    enum hvd_dtype dtype = examples[_i].dtype;
    struct reduction reduction = {.dtype = dtype,
                                  .partial = reduce_partial(dtype),
                                  .op = examples[_i].op,
                                  .prescale = examples[_i].prescale,
                                  .postscale = examples[_i].postscale,
                                  .ranks = 2};
    char left[8], right[8], partial[8], result[8], expected[8];
    element_put(dtype, left, 0, examples[_i].left);
    element_put(dtype, right, 0, examples[_i].right);
    element_put(dtype, expected, 0, examples[_i].expected);
    reduce_begin(&reduction, partial, left, 1);
    reduce_fold(&reduction, partial, partial, right, 1);
    reduce_finish(&reduction, result, partial, 1);
    assert_same(dtype, result, expected, 1);
}
END_TEST

/* 2048 + 1 is 2048 in float16, and 256 + 1 is 256 in bfloat16: rounded once it is 2050, rounded each time
 * not. So it is with 16 + 1 in E4M3, and with 8 + 1 in E5M2. */
START_TEST(rounds_once_where_partials_are_float32)
{
    static const struct {
        enum hvd_dtype dtype;
        double great;
    } rows[] = {{HVD_FLOAT16, 2048}, {HVD_BFLOAT16, 256}, {HVD_FLOAT8_E4M3, 16}, {HVD_FLOAT8_E5M2, 8}};
    for (int i = 0; i < 8; i++) {
        enum hvd_dtype dtype = rows[i / 2].dtype;
        enum hvd_dtype partial_dtype = i % 2 == 0 ? HVD_FLOAT32 : dtype;
        struct reduction reduction = {dtype, partial_dtype, HVD_SUM, 1, 1, RANKS};
        char great[2], one[2], partial[4], result[2];
        element_put(dtype, great, 0, (struct element){.real = rows[i / 2].great});
        element_put(dtype, one, 0, (struct element){.real = 1});
        reduce_begin(&reduction, partial, great, 1);
        reduce_fold(&reduction, partial, partial, one, 1);
        reduce_fold(&reduction, partial, partial, one, 1);
        reduce_finish(&reduction, result, partial, 1);
        double expected = rows[i / 2].great + (i % 2 == 0 ? 2 : 0);
        ck_assert_double_eq(element_at(dtype, result, 0).real, expected);
    }
}
END_TEST

static void fill_suite(Suite *suite)
{
    TCase *tcase = tcase_create("reduce");
    tcase_set_timeout(tcase, 60);
    unit_add_rounds(tcase, reduces_like_the_plain_loop, 0, CASES);
    unit_add_rounds(tcase, cuts_change_no_bit, 0, CASES);
    unit_add_rounds(tcase, works_in_place, 0, CASES);
    unit_add_rounds(tcase, ends_as_fold_and_finish_do, 0, CASES);
    unit_add_rounds(tcase, reduces_inputs_as_the_steps_do, 0, CASES);
    unit_add_rounds(tcase, reduces_nothing, 0, CASES);
    tcase_add_test(tcase, says_what_there_is);
    unit_add_rounds(tcase, reduces_the_examples, 0, sizeof(examples) / sizeof(examples[0]));
    tcase_add_test(tcase, rounds_once_where_partials_are_float32);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("reduce", fill_suite);
}
