/* test_plane_local.c: the plane of one rank keeps the contract of plane.h. */
#include "unit.h"

#include "sums.h"

static const struct plane_need needs[] = {
    {PLANE_ALLREDUCE, HVD_FLOAT32, HVD_SUM},
    {PLANE_ALLREDUCE, HVD_INT32, HVD_AVERAGE},
    {PLANE_ALLREDUCE, HVD_INT64, HVD_SUM},
    {PLANE_BROADCAST, HVD_FLOAT64, HVD_SUM},
};

static void run_batch(void *state, const struct plane_batch *batch)
{
    struct hvd_error err;
    bool moved = false;
    int rank = -1;
    int status = plane_local.start(state, batch, &err);
    ck_assert_int_eq(status, HVD_OK);
    for (int slices = 0; slices < 1000; slices++) {
        status = plane_local.test(state, &moved, &rank, &err);
        ck_assert(moved);
        if (status != HVD_IN_PROGRESS)
            break;
    }
    ck_assert_int_eq(status, HVD_OK);
}

START_TEST(output_is_input)
{
    static const int64_t counts[] = {1, 3, 1000003};
    struct hvd_job job = {.rank = 0, .size = 1};
    struct plane_env env = {.job = &job, .epoll_fd = -1};
    void *state = NULL;
    ck_assert_int_eq(plane_local.open(&env, 0, &state, NULL), HVD_OK);
    for (int i = 0; i < 3; i++) {
        struct plane_batch batch = {.need = needs[_i], .sequence = (uint64_t)i + 1, .count = counts[i]};
        size_t bytes = (size_t)batch.count * dtype_bytes(batch.need.dtype);
        char *input = malloc(bytes);
        char *output = malloc(bytes);
        void *expected = sums_expected(&batch, 1);
        sums_input(&batch, 0, input);
        batch.input = input;
        batch.output = output;
        run_batch(state, &batch);
        ck_assert_mem_eq(output, expected, bytes);
        ck_assert_mem_eq(input, expected, bytes);
        batch.output = input;
        run_batch(state, &batch);
        ck_assert_mem_eq(input, expected, bytes);
        free(input);
        free(output);
        free(expected);
    }
    plane_local.close(state);
}
END_TEST

START_TEST(is_for_one_rank_only)
{
    struct hvd_job job = {.rank = 0, .size = 1};
    struct plane_env env = {.job = &job, .epoll_fd = -1};
    const char *why = NULL;
    ck_assert(plane_local.available(&env, &why));
    job.size = 2;
    ck_assert(!plane_local.available(&env, &why));
    ck_assert_ptr_nonnull(why);
}
END_TEST

START_TEST(knows_what_it_can)
{
    ck_assert(plane_local.can(&needs[_i]));
    struct plane_need need = needs[_i];
    need.dtype = (enum hvd_dtype)99;
    ck_assert(!plane_local.can(&need));
    need = needs[_i];
    need.op = (enum hvd_op)99;
    ck_assert(plane_local.can(&need) == (need.kind == PLANE_BROADCAST));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("plane_local");
    tcase_add_loop_test(tcase, output_is_input, 0, sizeof(needs) / sizeof(needs[0]));
    tcase_add_test(tcase, is_for_one_rank_only);
    tcase_add_loop_test(tcase, knows_what_it_can, 0, sizeof(needs) / sizeof(needs[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("plane_local", fill);
}
