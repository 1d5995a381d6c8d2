/* test_adasum_levels.c: an allreduce that is made of exchanges between two members. */
#include "batch_world.h"

#include <math.h>

/* What member [m] gives at [i]: neither parallel nor orthogonal. */
static double value_of(int m, int64_t i)
{
    return (double)((i * (m + 3) + m) % 11) - 4;
}

/* [a] and [b] into [a], as hvd.h says. */
static void blend(double *a, const double *b, int64_t count)
{
    double aa = 0;
    double bb = 0;
    double ab = 0;
    for (int64_t i = 0; i < count; i++) {
        aa += a[i] * a[i];
        bb += b[i] * b[i];
        ab += a[i] * b[i];
    }
    double a_factor = aa > 0 ? 1 - ab / (2 * aa) : 1;
    double b_factor = bb > 0 ? 1 - ab / (2 * bb) : 1;
    for (int64_t i = 0; i < count; i++)
        a[i] = a_factor * a[i] + b_factor * b[i];
}

/* Of all members' vectors, neighbours first; the result is the first one's. */
static void combine(double **vectors, int size, int64_t count)
{
    for (int distance = 1; distance < size; distance *= 2) {
        for (int m = 0; m < size; m += 2 * distance)
            blend(vectors[m], vectors[m + distance], count);
    }
}

struct adasum {
    struct batch_world *sides;
    double *vectors[BATCH_WORLD_MAX]; /* of the reference */
};

static void begin(struct adasum *adasum, int size, enum hvd_dtype dtype, int64_t count)
{
    adasum->sides = batch_world_create(size);
    struct desc *desc = describe(DESC_ALLREDUCE, 1, dtype);
    desc->op = HVD_ADASUM;
    desc->prescale = 0.5;
    desc->postscale = 4;
    desc->tensors[0].shape[0] = count;
    batch_world_begin(adasum->sides, desc);
    for (int m = 0; m < size; m++) {
        struct request_tensor *tensor = &adasum->sides->at[m].request->tensors[0];
        void *input = malloc((size_t)count * dtype_bytes(dtype));
        adasum->vectors[m] = malloc((size_t)count * sizeof(double));
        for (int64_t i = 0; i < count; i++) {
            element_set(dtype, input, i, value_of(m, i));
            adasum->vectors[m][i] = value_of(m, i) * 0.5;
        }
        tensor->input = input;
        tensor->output = malloc((size_t)count * dtype_bytes(dtype));
    }
    batch_world_pack_all(adasum->sides);
}

static void end(struct adasum *adasum)
{
    for (int m = 0; m < adasum->sides->size; m++) {
        struct request_tensor *tensor = &adasum->sides->at[m].request->tensors[0];
        free((void *)tensor->input);
        free(tensor->output);
        free(adasum->vectors[m]);
    }
    batch_world_free(adasum->sides);
}

static double tolerance_of(enum hvd_dtype dtype)
{
    switch (dtype) {
    case HVD_FLOAT64:
        return 1e-9;
    case HVD_FLOAT32:
        return 1e-4;
    case HVD_FLOAT16:
        return 0.03;
    default:
        return 0.2;
    }
}

static void check(const struct adasum *adasum, enum hvd_dtype dtype, int64_t count, int without)
{
    int first = without == 0;
    const void *result = adasum->sides->at[first].request->tensors[0].output;
    for (int m = 0; m < adasum->sides->size; m++) {
        if (m != without)
            ck_assert_mem_eq(adasum->sides->at[m].request->tensors[0].output, result,
                             (size_t)count * dtype_bytes(dtype));
    }
    for (int64_t i = 0; i < count; i++) {
        double value = element_get(dtype, result, i);
        double expected = adasum->vectors[0][i] * 4;
        if (!(fabs(value - expected) < tolerance_of(dtype)))
            ck_assert_double_eq_tol(value, expected, tolerance_of(dtype));
    }
}

static const enum hvd_dtype dtypes[] = {HVD_FLOAT32, HVD_FLOAT64, HVD_FLOAT16, HVD_BFLOAT16};
static const int64_t counts[] = {1, 7, LAYOUT_PORTION_BYTES / 4 + 5};

START_TEST(vectors_are_combined_pair_by_pair)
{
    struct adasum adasum;
    int size = 1 << _i % 4;
    enum hvd_dtype dtype = dtypes[_i / 4 % 4];
    int64_t count = counts[_i / 16];
    begin(&adasum, size, dtype, count);
    batch_world_run(adasum.sides);
    ck_assert_int_eq(adasum.sides->carried, _i % 4);
    combine(adasum.vectors, size, count);
    check(&adasum, dtype, count, -1);
    end(&adasum);
}
END_TEST

START_TEST(zeros_leave_the_other_vector_as_it_is)
{
    struct adasum adasum;
    begin(&adasum, 4, HVD_FLOAT32, 9);
    struct request_tensor *tensor = &adasum.sides->at[1].request->tensors[0];
    memset((void *)tensor->input, 0, 9 * sizeof(float));
    memset(adasum.vectors[1], 0, 9 * sizeof(double));
    batch_world_run(adasum.sides);
    combine(adasum.vectors, 4, 9);
    check(&adasum, HVD_FLOAT32, 9, -1);
    end(&adasum);
}
END_TEST

START_TEST(a_member_that_joined_gives_zeros)
{
    struct adasum adasum;
    int joined = _i;
    begin(&adasum, 4, HVD_FLOAT16, 9);
    struct request_tensor *tensor = &adasum.sides->at[joined].request->tensors[0];
    free((void *)tensor->input);
    free(tensor->output);
    tensor->input = tensor->output = NULL;
    tensor->request->placeholder = true;
    memset(adasum.vectors[joined], 0, 9 * sizeof(double));
    batch_world_run(adasum.sides);
    combine(adasum.vectors, 4, 9);
    check(&adasum, HVD_FLOAT16, 9, joined);
    end(&adasum);
}
END_TEST

START_TEST(a_nan_goes_to_everybody)
{
    struct adasum adasum;
    begin(&adasum, 4, HVD_FLOAT64, 3);
    *(double *)adasum.sides->at[2].request->tensors[0].input = NAN;
    batch_world_run(adasum.sides);
    for (int m = 0; m < 4; m++)
        ck_assert_double_nan(*(const double *)adasum.sides->at[m].request->tensors[0].output);
    end(&adasum);
}
END_TEST

START_TEST(nothing_is_exchanged_without_elements)
{
    struct adasum adasum;
    begin(&adasum, 4, HVD_FLOAT32, 0);
    batch_world_run(adasum.sides);
    ck_assert_int_eq(adasum.sides->carried, 0);
    end(&adasum);
}
END_TEST

START_TEST(only_powers_of_two_can)
{
    static const int can[] = {1, 2, 4, 8, 1 << 20};
    static const int cannot[] = {-4, 0, 3, 5, 6, 7, 12, 1023};
    for (size_t i = 0; i < sizeof(can) / sizeof(can[0]); i++)
        ck_assert(adasum_supports(can[i]));
    for (size_t i = 0; i < sizeof(cannot) / sizeof(cannot[0]); i++)
        ck_assert(!adasum_supports(cannot[i]));
}
END_TEST

START_TEST(too_large_a_vector_is_refused)
{
    struct batch_world *sides = batch_world_create(2);
    struct desc *desc = describe(DESC_ALLREDUCE, 1, HVD_FLOAT16);
    struct hvd_error err = {""};
    desc->op = HVD_ADASUM;
    desc->tensors[0].shape[0] = 1;
    batch_world_begin(sides, desc);
    for (int i = 0; i < sides->size; i++)
        sides->at[i].request->tensors[0].count = INT64_MAX / 4; /* more than a call may have */
    batch_world_pack_all(sides);
    ck_assert_int_eq(adasum_plan(sides->at[0].batch, &err), HVD_ERR_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(err.text, "working vectors"));
    batch_world_free(sides);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("adasum_levels");
    tcase_set_timeout(tcase, 120);
    unit_add_rounds(tcase, vectors_are_combined_pair_by_pair, 0, 48);
    tcase_add_test(tcase, zeros_leave_the_other_vector_as_it_is);
    unit_add_rounds(tcase, a_member_that_joined_gives_zeros, 0, 4);
    tcase_add_test(tcase, a_nan_goes_to_everybody);
    tcase_add_test(tcase, nothing_is_exchanged_without_elements);
    tcase_add_test(tcase, only_powers_of_two_can);
    tcase_add_test(tcase, too_large_a_vector_is_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("adasum_levels", fill);
}
