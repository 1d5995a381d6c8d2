/* test_local.c: the backend of teams of one rank keeps the contract of backend.h. */
#include "unit.h"

#include <sys/mman.h>

#include "batches.h"
#include "backend/backend_env.h"

static void *state, *team;

static void open_team(void)
{
    static const int ranks[] = {3};
    const struct team members = {.set = 5, .size = 1, .ranks = ranks};
    struct hvd_job job = {.rank = 3, .size = 4};
    struct backend_env env = {.job = &job, .epoll_fd = -1};
    ck_assert_int_eq(backend_local.open(&env, 0, &state, NULL), HVD_OK);
    ck_assert_int_eq(backend_local.add_team(state, &members, 0, &team, NULL), HVD_OK);
}

static void close_all(void)
{
    backend_local.remove_team(state, team);
    backend_local.close(state);
}

static void run_batch(const struct backend_batch *batch)
{
    struct hvd_error err;
    bool moved = false;
    int rank = -1;
    int status = backend_local.start(state, team, batch, &err);
    ck_assert_int_eq(status, HVD_OK);
    for (int slices = 0; slices < 1000; slices++) {
        status = backend_local.test(state, team, &moved, &rank, &err);
        ck_assert(moved);
        if (status != HVD_IN_PROGRESS)
            break;
    }
    ck_assert_int_eq(status, HVD_OK);
}

/* [_i] is the kind. */
START_TEST(output_is_input_times_factors)
{
    uint64_t random = (uint64_t)_i + 3;
    for (int i = 0; i < 300; i++) {
        struct batch_plan plan =
            batch_plan_random(&random, (enum backend_kind)_i, 1, i % 50 == 0 ? 100000 : 64);
        struct batch_part part;
        batch_part_open(&part, &plan, 0);
        ck_assert(backend_local.supports(&part.batch.need));
        run_batch(&part.batch);
        ck_assert(batch_part_close(&part, &plan, 0));
    }
}
END_TEST

/* The average over one rank is its input; a bool is 0 or 1. */
START_TEST(reduces_what_is_there)
{
    float value = 1.5f, result = 0;
    uint8_t flags[] = {0, 1, 2, 255};
    struct backend_batch batch = {.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_AVERAGE, 1},
                                  .input = &value,
                                  .output = &result,
                                  .prescale = 4,
                                  .postscale = 0.25,
                                  .count = 1};
    run_batch(&batch);
    ck_assert(result == 1.5f);
    batch.need = (struct backend_need){COLL_ALLREDUCE, HVD_BOOL, HVD_BOOL, HVD_SUM, 1};
    batch.input = batch.output = flags;
    batch.count = 4;
    run_batch(&batch);
    ck_assert_mem_eq(flags, "\0\1\1\1", 4);
}
END_TEST

/* [_i] is the factor: 1 leaves what is in place alone, in memory that may only be read. */
START_TEST(takes_tensors_where_they_lie)
{
    enum { SMALL = 100, LARGE = 70000 };
    float *in_place =
        mmap(NULL, SMALL * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *input = calloc(LARGE, sizeof(*input));
    float *output = calloc(LARGE, sizeof(*output));
    for (int i = 0; i < LARGE; i++)
        input[i] = (float)i;
    for (int i = 0; i < SMALL; i++)
        in_place[i] = (float)-i;
    if (_i == 1)
        ck_assert_int_eq(mprotect(in_place, SMALL * sizeof(float), PROT_READ), 0);
    const struct backend_span spans[] = {{input, output, 0, LARGE}, {in_place, in_place, LARGE, SMALL}};
    struct backend_batch batch = {.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 1},
                                  .prescale = _i,
                                  .postscale = 1,
                                  .count = LARGE + SMALL,
                                  .spans = spans,
                                  .span_count = 2};
    ck_assert_int_eq(backend_local.spans_from, 1);
    run_batch(&batch);
    for (int i = 0; i < LARGE; i++)
        ck_assert(output[i] == (float)(i * _i));
    for (int i = 0; i < SMALL; i++)
        ck_assert(in_place[i] == (float)(-i * _i));
    munmap(in_place, SMALL * sizeof(float));
    free(input);
    free(output);
}
END_TEST

/* Nothing to do, nothing to read. */
START_TEST(bears_empty_batches)
{
    const int64_t none[1] = {0};
    struct backend_batch batch = {
        .need = {COLL_ALLTOALL, HVD_INT64, HVD_INT64, HVD_SUM, 1}, .counts = none, .receive_counts = none};
    run_batch(&batch);
}
END_TEST

START_TEST(no_call_takes_long)
{
    struct hvd_error err;
    bool moved = false;
    int rank = -1, calls = 0, status;
    int64_t count = 10000000;
    float *data = calloc((size_t)count, sizeof(*data));
    struct backend_batch batch = {.need = {COLL_ALLREDUCE, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 1},
                                  .input = data,
                                  .output = data,
                                  .prescale = 2,
                                  .postscale = 1,
                                  .count = count};
    ck_assert_int_eq(backend_local.start(state, team, &batch, &err), HVD_OK);
    do {
        status = backend_local.test(state, team, &moved, &rank, &err);
        calls++;
    } while (status == HVD_IN_PROGRESS);
    ck_assert_int_eq(status, HVD_OK);
    ck_assert_int_ge(calls, 100);
    free(data);
}
END_TEST

START_TEST(is_there_in_every_job)
{
    struct hvd_job job = {.rank = 0, .size = 1};
    struct backend_env env = {.job = &job, .epoll_fd = -1};
    const char *why = NULL;
    ck_assert(backend_local.available(&env, &why));
    job.size = 2;
    ck_assert(backend_local.available(&env, &why));
}
END_TEST

START_TEST(knows_what_it_can)
{
    struct backend_need need = {(enum backend_kind)_i, HVD_FLOAT16, HVD_FLOAT32, HVD_SUM, 1};
    bool reduces = _i == COLL_ALLREDUCE || _i == COLL_REDUCESCATTER;
    ck_assert(backend_local.supports(&need));
    need.ranks = 2;
    ck_assert(!backend_local.supports(&need));
    need.ranks = 1;
    need.op = (enum hvd_op)99;
    ck_assert(backend_local.supports(&need) == !reduces);
    need.op = HVD_SUM;
    need.dtype = (enum hvd_dtype)99;
    ck_assert(!backend_local.supports(&need));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("local");
    tcase_add_checked_fixture(tcase, open_team, close_all);
    tcase_add_loop_test(tcase, output_is_input_times_factors, COLL_ALLREDUCE, COLL_REDUCESCATTER + 1);
    tcase_add_test(tcase, reduces_what_is_there);
    tcase_add_loop_test(tcase, takes_tensors_where_they_lie, 1, 3);
    tcase_add_test(tcase, bears_empty_batches);
    tcase_add_test(tcase, no_call_takes_long);
    tcase_add_test(tcase, is_there_in_every_job);
    tcase_add_loop_test(tcase, knows_what_it_can, COLL_ALLREDUCE, COLL_REDUCESCATTER + 1);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("local", fill);
}
