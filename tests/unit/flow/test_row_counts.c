/* test_row_counts.c: how many rows the other members have, and memory for results whose size only that tells.
 */
#include "batch_world.h"

#define TENSORS 3

/* ---- allgather ---- */

/* What member [m] has in element [i] of tensor [t]. */
static int32_t value_of(int m, int t, int64_t i)
{
    return (int32_t)(m * 1000003 + t * 10007 + i);
}

static void *refuse(int64_t bytes, void *arg)
{
    (void)bytes;
    ++*(int *)arg;
    return NULL;
}

static void *give(int64_t bytes, void *arg)
{
    *(int64_t *)arg += bytes;
    return malloc((size_t)bytes);
}

struct gather {
    struct batch_world *sides;
    int64_t row[TENSORS];
    int64_t rows[BATCH_WORLD_MAX][TENSORS];
    struct hvd_result results[BATCH_WORLD_MAX][TENSORS];
    int64_t result_rows[BATCH_WORLD_MAX][TENSORS][BATCH_WORLD_MAX];
};

/* Member m has (m + t) % 3 rows of tensor t, or none; a row has row[t] elements. */
static void gather_begin(struct gather *gather, int size, int tensor_count, int64_t row, bool has_rows)
{
    memset(gather, 0, sizeof(*gather));
    gather->sides = batch_world_create(size);
    struct desc *desc = describe(DESC_ALLGATHER, tensor_count, HVD_INT32);
    for (int t = 0; t < tensor_count; t++) {
        gather->row[t] = row + t;
        desc->tensors[t].ndim = 2;
        desc->tensors[t].shape[1] = gather->row[t];
    }
    batch_world_begin(gather->sides, desc);
    for (int m = 0; m < size; m++) {
        for (int t = 0; t < tensor_count; t++) {
            struct request_tensor *tensor = &gather->sides->at[m].request->tensors[t];
            gather->rows[m][t] = has_rows ? (m + t) % 3 : 0;
            tensor->rows = gather->rows[m][t];
            tensor->count = tensor->rows * gather->row[t];
            tensor->bytes = tensor->count * 4;
            int32_t *input = malloc((size_t)tensor->bytes);
            for (int64_t i = 0; i < tensor->count; i++)
                input[i] = value_of(m, t, i);
            tensor->input = input;
            tensor->result = &gather->results[m][t];
            tensor->result->rows = gather->result_rows[m][t];
        }
    }
    batch_world_pack_all(gather->sides);
}

static void gather_check(const struct gather *gather, int m, int t)
{
    const struct request_tensor *tensor = &gather->sides->at[m].request->tensors[t];
    const int32_t *output = tensor->output;
    int64_t at = 0;
    int64_t rows = 0;
    for (int from = 0; from < gather->sides->size; from++) {
        ck_assert_int_eq(gather->result_rows[m][t][from], gather->rows[from][t]);
        for (int64_t i = 0; i < gather->rows[from][t] * gather->row[t]; i++)
            expect_equal(output[at++], value_of(from, t, i));
        rows += gather->rows[from][t];
    }
    ck_assert_int_eq(tensor->result_rows, rows);
    ck_assert(at > 0 || output == NULL);
}

static void gather_end(struct gather *gather)
{
    for (int m = 0; m < gather->sides->size; m++) {
        for (int t = 0; t < gather->sides->at[m].request->tensor_count; t++)
            free((void *)gather->sides->at[m].request->tensors[t].input);
    }
    batch_world_free(gather->sides);
}

static const struct {
    int size, tensor_count;
    int64_t row;
} gathers[] = {{3, 1, 4}, {3, 3, 4}, {1, 1, 4}, {1, 3, 4}, {4, 2, LAYOUT_PORTION_BYTES / 4 - 1}, {5, 3, 1}};

START_TEST(all_rows_come_together)
{
    struct gather gather;
    gather_begin(&gather, gathers[_i].size, gathers[_i].tensor_count, gathers[_i].row, true);
    ck_assert(!batch_world_run(gather.sides));
    for (int m = 0; m < gathers[_i].size; m++) {
        for (int t = 0; t < gathers[_i].tensor_count; t++)
            gather_check(&gather, m, t);
    }
    gather_end(&gather);
}
END_TEST

START_TEST(a_single_result_is_written_at_once)
{
    struct gather gather;
    gather_begin(&gather, 3, 1, 5, true);
    batch_world_run(gather.sides);
    const struct set_member *side = &gather.sides->at[2];
    ck_assert_int_eq(side->batch->layout.buffer_bytes, 0);
    ck_assert_ptr_eq(side->batch->transfer.output, side->request->tensors[0].output);
    ck_assert_ptr_eq(side->batch->transfer.input, side->request->tensors[0].input);
    gather_end(&gather);
}
END_TEST

START_TEST(without_rows_only_counts_are_transferred)
{
    struct gather gather;
    int calls = 0;
    gather_begin(&gather, 3, 1, 5, false);
    gather.results[1][0].allocate = refuse;
    gather.results[1][0].arg = &calls;
    memset(gather.result_rows[1][0], 0x55, sizeof(gather.result_rows[1][0]));
    batch_world_run(gather.sides);
    ck_assert_int_eq(gather.sides->carried, 1);
    gather_check(&gather, 1, 0);
    ck_assert_int_eq(calls, 0);
    ck_assert_int_eq(gather.sides->at[1].request->first_error, HVD_OK);
    gather_end(&gather);
}
END_TEST

/* 3 tensors of 3 rows each in all: 3 x 4 x {100, 101, 102} bytes. */
START_TEST(what_goes_beyond_the_threshold_is_next)
{
    struct gather gather;
    gather_begin(&gather, 3, 3, 100, true);
    gather.sides->threshold_bytes = 3 * 4 * 201;
    ck_assert(batch_world_run(gather.sides));
    ck_assert_int_eq(gather.sides->at[0].batch->tensor_count, 2);
    for (int m = 0; m < 3; m++) {
        gather_check(&gather, m, 0);
        gather_check(&gather, m, 1);
    }
    batch_world_next(gather.sides);
    ck_assert_int_eq(gather.sides->at[0].batch->tensor_count, 1);
    ck_assert(!batch_world_run(gather.sides));
    for (int m = 0; m < 3; m++)
        gather_check(&gather, m, 2);
    ck_assert_int_eq(gather.sides->carried, 3);
    gather_end(&gather);
}
END_TEST

/* Alone and together with others: the member that has no memory takes part, and the others see nothing of it.
 */
START_TEST(without_memory_one_member_fails_alone)
{
    struct gather gather;
    int calls = 0;
    int tensor_count = _i == 0 ? 1 : 3;
    gather_begin(&gather, 3, tensor_count, 6, true);
    gather.results[1][0].allocate = refuse;
    gather.results[1][0].arg = &calls;
    batch_world_run(gather.sides);
    const struct request *request = gather.sides->at[1].request;
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(request->first_error, HVD_ERR_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(request->reason, "72 bytes"));
    ck_assert_ptr_nonnull(strstr(request->reason, "\"t0\""));
    for (int m = 0; m < 3; m++) {
        for (int t = 0; t < tensor_count; t++) {
            if (m != 1 || t != 0)
                gather_check(&gather, m, t);
        }
    }
    ck_assert_int_eq(gather.sides->at[0].request->first_error, HVD_OK);
    gather_end(&gather);
}
END_TEST

START_TEST(a_caller_may_give_the_memory)
{
    struct gather gather;
    int64_t given = 0;
    gather_begin(&gather, 3, 2, 6, true);
    gather.results[1][0].allocate = give;
    gather.results[1][0].arg = &given;
    batch_world_run(gather.sides);
    gather_check(&gather, 1, 0);
    const struct request_tensor *tensor = &gather.sides->at[1].request->tensors[0];
    ck_assert_int_eq(given, 3 * 6 * 4);
    ck_assert(!tensor->owned);
    ck_assert(gather.sides->at[1].request->tensors[1].owned);
    free(tensor->output);
    gather_end(&gather);
}
END_TEST

/* ---- What others say ---- */

static const struct {
    const char *why;
    int64_t said[3];
    int64_t row;
    int liar; /* the rank that is named; -1: it may be so */
} lies[] = {
    {"negative", {1, -1, 1}, 4, 13},
    {"most negative", {1, 1, INT64_MIN}, 4, 16},
    {"more rows than there are numbers", {1, INT64_MAX, 1}, 0, 13},
    {"more elements than there are numbers", {0, INT64_MAX / 4, INT64_MAX / 4}, 8, 13},
    {"more bytes than there are numbers", {1, INT64_MAX / 8, 0}, 4, 13},
    {"a large row that nobody has", {0, 0, 0}, -1, -1},
    {"a large row that somebody has", {0, 0, 1}, -1, 16},
    {"of rows without elements any number", {1, 7, INT64_MAX / 2}, 0, -1},
};

START_TEST(sizes_are_believed_only_where_they_can_be)
{
    struct batch_world *sides = batch_world_create(3);
    struct desc *desc = describe(DESC_ALLGATHER, 1, HVD_INT32);
    struct batch *rest = NULL;
    struct hvd_error err = {""};
    desc->tensors[0].ndim = 3;
    desc->tensors[0].shape[1] = lies[_i].row < 0 ? INT64_MAX / 2 : lies[_i].row;
    desc->tensors[0].shape[2] = lies[_i].row < 0 ? 8 : 1;
    batch_world_begin(sides, desc);
    sides->at[0].request->tensors[0].rows = lies[_i].said[0];
    batch_world_pack_all(sides);
    struct batch *batch = sides->at[0].batch;
    ck_assert_int_eq(row_counts_exchange(batch, NULL), HVD_OK);
    ck_assert_int_eq(((const int64_t *)batch->transfer.input)[0], lies[_i].said[0]);
    memcpy(batch->transfer.output, lies[_i].said, sizeof(lies[_i].said));
    int rc = row_counts_apply(batch, 100, &rest, &err);
    ck_assert_msg(rc == (lies[_i].liar < 0 ? HVD_OK : HVD_ERR_SYSTEM), "%s: %d", lies[_i].why, rc);
    char name[32];
    snprintf(name, sizeof(name), "rank %d says", lies[_i].liar);
    ck_assert_msg(rc == HVD_OK || strstr(err.text, name) != NULL, "%s: %s", lies[_i].why, err.text);
    ck_assert_ptr_null(rest);
    batch_world_free(sides);
}
END_TEST

/* It came back through the others, who may have changed it; only what is there is sent. */
START_TEST(its_own_size_a_rank_knows_itself)
{
    struct gather gather;
    struct batch *rest = NULL;
    gather_begin(&gather, 3, 1, 4, true);
    struct batch *batch = gather.sides->at[1].batch;
    ck_assert_int_eq(row_counts_exchange(batch, NULL), HVD_OK);
    int64_t *come = batch->transfer.output;
    come[0] = 0;
    come[1] = 1000000;
    come[2] = 2;
    ck_assert_int_eq(row_counts_apply(batch, 100, &rest, NULL), HVD_OK);
    ck_assert_int_eq(batch->tensors->member_rows[1], 1);
    gather_end(&gather);
}
END_TEST

/* ---- alltoall ---- */

/* Member m has (m + to + 1) % 3 rows for member [to], or none. */
static int64_t split_of(int size, int m, int to)
{
    return size == 2 ? 0 : (m + to + 1) % 3;
}

static void exchange_begin(struct batch_world *sides, int64_t row, struct hvd_result *results,
                           int64_t *result_rows)
{
    struct desc *desc = describe(DESC_ALLTOALL, 1, HVD_INT32);
    desc->tensors[0].ndim = 2;
    desc->tensors[0].shape[1] = row;
    batch_world_begin(sides, desc);
    for (int m = 0; m < sides->size; m++) {
        struct request *request = sides->at[m].request;
        struct request_tensor *tensor = &request->tensors[0];
        request->splits = malloc((size_t)sides->size * sizeof(int64_t));
        tensor->rows = 0;
        for (int to = 0; to < sides->size; to++)
            tensor->rows += request->splits[to] = split_of(sides->size, m, to);
        tensor->count = tensor->rows * row;
        int32_t *input = malloc((size_t)tensor->count * 4);
        for (int64_t i = 0; i < tensor->count; i++)
            input[i] = value_of(m, 0, i);
        tensor->input = input;
        tensor->result = &results[m];
        tensor->result->rows = &result_rows[m * BATCH_WORLD_MAX];
    }
    batch_world_pack_all(sides);
}

static void exchange_check(const struct batch_world *sides, int m, int64_t row, const int64_t *rows)
{
    const int32_t *output = sides->at[m].request->tensors[0].output;
    int64_t at = 0;
    for (int from = 0; from < sides->size; from++) {
        int64_t first = 0;
        for (int to = 0; to < m; to++)
            first += split_of(sides->size, from, to) * row;
        ck_assert_int_eq(rows[from], split_of(sides->size, from, m));
        for (int64_t i = 0; i < rows[from] * row; i++)
            expect_equal(output[at++], value_of(from, 0, first + i));
    }
    ck_assert(at > 0 || output == NULL);
}

static void exchange_end(struct batch_world *sides)
{
    for (int m = 0; m < sides->size; m++)
        free((void *)sides->at[m].request->tensors[0].input);
    batch_world_free(sides);
}

START_TEST(everybody_gets_what_is_meant_for_it)
{
    static const int64_t row_of[] = {3, 3, 3, 30000, 0};
    static const int size_of[] = {1, 3, 4, 5, 3};
    struct hvd_result results[BATCH_WORLD_MAX] = {{0}};
    int64_t result_rows[BATCH_WORLD_MAX * BATCH_WORLD_MAX];
    struct batch_world *sides = batch_world_create(size_of[_i]);
    exchange_begin(sides, row_of[_i], results, result_rows);
    batch_world_run(sides);
    for (int m = 0; m < sides->size; m++)
        exchange_check(sides, m, row_of[_i], &result_rows[m * BATCH_WORLD_MAX]);
    ck_assert_int_eq(sides->carried, 1 + (row_of[_i] > 0));
    exchange_end(sides);
}
END_TEST

/* No member knows that the others have no rows, so the transfer takes place. */
START_TEST(nothing_for_anybody_is_exchanged_too)
{
    struct hvd_result results[BATCH_WORLD_MAX] = {{0}};
    int64_t result_rows[BATCH_WORLD_MAX * BATCH_WORLD_MAX];
    struct batch_world *sides = batch_world_create(2);
    exchange_begin(sides, 4, results, result_rows);
    batch_world_run(sides);
    exchange_check(sides, 1, 4, &result_rows[BATCH_WORLD_MAX]);
    ck_assert_int_eq(sides->carried, 2);
    exchange_end(sides);
}
END_TEST

START_TEST(without_memory_an_exchange_goes_on)
{
    struct hvd_result results[BATCH_WORLD_MAX] = {{0}};
    int64_t result_rows[BATCH_WORLD_MAX * BATCH_WORLD_MAX];
    struct batch_world *sides = batch_world_create(3);
    int calls = 0;
    exchange_begin(sides, 4, results, result_rows);
    results[2].allocate = refuse;
    results[2].arg = &calls;
    batch_world_run(sides);
    ck_assert_int_eq(sides->at[2].request->first_error, HVD_ERR_NO_MEMORY);
    ck_assert_int_eq(calls, 1);
    exchange_check(sides, 0, 4, &result_rows[0]);
    exchange_check(sides, 1, 4, &result_rows[BATCH_WORLD_MAX]);
    exchange_end(sides);
}
END_TEST

START_TEST(a_negative_split_is_not_believed)
{
    struct hvd_result results[BATCH_WORLD_MAX] = {{0}};
    int64_t result_rows[BATCH_WORLD_MAX * BATCH_WORLD_MAX];
    struct hvd_error err = {""};
    struct batch *rest = NULL;
    struct batch_world *sides = batch_world_create(3);
    exchange_begin(sides, 4, results, result_rows);
    struct batch *batch = sides->at[0].batch;
    ck_assert_int_eq(row_counts_exchange(batch, NULL), HVD_OK);
    int64_t *come = batch->transfer.output;
    come[0] = 5; /* its own: not looked at */
    come[1] = 0;
    come[2] = -5;
    ck_assert_int_eq(row_counts_apply(batch, 100, &rest, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 16 says that it has -5 rows"));
    exchange_end(sides);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("row_counts");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, all_rows_come_together, 0, sizeof(gathers) / sizeof(gathers[0]));
    tcase_add_test(tcase, a_single_result_is_written_at_once);
    tcase_add_test(tcase, without_rows_only_counts_are_transferred);
    tcase_add_test(tcase, what_goes_beyond_the_threshold_is_next);
    tcase_add_loop_test(tcase, without_memory_one_member_fails_alone, 0, 2);
    tcase_add_test(tcase, a_caller_may_give_the_memory);
    tcase_add_loop_test(tcase, sizes_are_believed_only_where_they_can_be, 0, sizeof(lies) / sizeof(lies[0]));
    tcase_add_test(tcase, its_own_size_a_rank_knows_itself);
    tcase_add_loop_test(tcase, everybody_gets_what_is_meant_for_it, 0, 5);
    tcase_add_test(tcase, nothing_for_anybody_is_exchanged_too);
    tcase_add_test(tcase, without_memory_an_exchange_goes_on);
    tcase_add_test(tcase, a_negative_split_is_not_believed);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("row_counts", fill);
}
