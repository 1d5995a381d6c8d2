/* test_batch.c: packing into the fusion buffer, and out of it, in portions. */
#include "batch_world.h"

#define TENSORS 3

/* One element, a little more than a portion, and two portions. */
static const int64_t counts[TENSORS] = {1, LAYOUT_PORTION_BYTES / 4 + 7, LAYOUT_PORTION_BYTES / 2};

/* What member [m] gives at [i] of tensor [t]; small, so that all types hold the sums. */
static double value_of(int m, int t, int64_t i)
{
    return (double)((m + 1) * (t + 1) + i % 3);
}

static double sum_of(int size, int t, int64_t i)
{
    double sum = 0;
    for (int m = 0; m < size; m++)
        sum += value_of(m, t, i);
    return sum;
}

/* Memory of each member for each tensor: its values; output in place, or apart and full of 0x55. */
static void fill_memory(struct batch_world *sides, bool in_place, const int64_t *output_counts)
{
    for (int m = 0; m < sides->size; m++) {
        struct request *request = sides->at[m].request;
        for (int t = 0; t < request->tensor_count; t++) {
            struct request_tensor *tensor = &request->tensors[t];
            enum hvd_dtype dtype = request->desc->tensors[t].dtype;
            size_t output_bytes = (size_t)output_counts[t] * dtype_bytes(dtype);
            char *input = malloc((size_t)tensor->count * dtype_bytes(dtype));
            for (int64_t i = 0; i < tensor->count; i++)
                element_set(dtype, input, i, value_of(m, t, i));
            tensor->input = input;
            tensor->output = in_place ? input : malloc(output_bytes);
            if (!in_place)
                memset(tensor->output, 0x55, output_bytes);
        }
    }
}

static void free_memory(struct batch_world *sides)
{
    for (int m = 0; m < sides->size; m++) {
        struct request *request = sides->at[m].request;
        for (int t = 0; t < request->tensor_count; t++) {
            if (request->tensors[t].output != request->tensors[t].input)
                free(request->tensors[t].output);
            free((void *)request->tensors[t].input);
        }
    }
    batch_world_free(sides);
}

static struct batch_world *make(int size, enum desc_kind kind, enum hvd_dtype dtype, int tensor_count)
{
    struct batch_world *sides = batch_world_create(size);
    struct desc *desc = describe(kind, tensor_count, dtype);
    for (int t = 0; t < tensor_count; t++)
        desc->tensors[t].shape[0] = counts[t];
    batch_world_begin(sides, desc);
    return sides;
}

/* The description is everybody's, and still the test's to fill. */
static struct desc *desc_of(struct batch_world *sides)
{
    return (struct desc *)sides->at[0].request->desc;
}

static void check_sums(const struct batch_world *sides, double scale)
{
    for (int m = 0; m < sides->size; m++) {
        const struct request *request = sides->at[m].request;
        for (int t = 0; t < request->tensor_count && !request->placeholder; t++) {
            for (int64_t i = 0; i < counts[t]; i++)
                expect_equal(element_get(request->desc->tensors[t].dtype, request->tensors[t].output, i),
                             sum_of(sides->size, t, i) * scale);
        }
    }
}

static const enum hvd_dtype dtypes[] = {HVD_FLOAT32, HVD_INT32, HVD_FLOAT64, HVD_UINT8, HVD_BFLOAT16};

START_TEST(pieces_go_in_and_come_out_where_they_belong)
{
    bool in_place = _i % 2 == 1;
    enum hvd_dtype dtype = dtypes[_i / 2];
    struct batch_world *sides = make(3, DESC_ALLREDUCE, dtype, TENSORS);
    fill_memory(sides, in_place, counts);
    batch_world_pack_all(sides);
    ck_assert(!batch_world_run(sides));
    check_sums(sides, 1);
    int64_t bytes = sides->at[0].batch->layout.bytes;
    ck_assert_int_eq(bytes, (counts[0] + counts[1] + counts[2]) * (int64_t)dtype_bytes(dtype));
    ck_assert_int_ge(sides->at[1].packs, (int)(bytes / (LAYOUT_PORTION_BYTES + 64)));
    ck_assert_int_le(sides->at[1].packs, (int)(bytes / LAYOUT_PORTION_BYTES) + 2);
    ck_assert_int_eq(sides->at[1].unpacks, sides->at[1].packs);
    free_memory(sides);
}
END_TEST

START_TEST(one_alone_is_never_copied)
{
    struct batch_world *sides = make(2, DESC_ALLREDUCE, HVD_FLOAT32, 1);
    fill_memory(sides, false, counts);
    batch_world_pack_all(sides);
    set_member_advance(&sides->at[0]);
    const struct batch *batch = sides->at[0].batch;
    ck_assert_ptr_eq(batch->transfer.input, batch->tensors->input);
    ck_assert_ptr_eq(batch->transfer.output, batch->tensors->output);
    ck_assert_int_eq(batch->layout.buffer_bytes, 0);
    batch_world_run(sides);
    ck_assert_int_eq(sides->at[0].packs + sides->at[0].unpacks, 0);
    check_sums(sides, 1);
    free_memory(sides);
}
END_TEST

START_TEST(without_elements_nothing_is_transferred)
{
    static const enum desc_kind kinds[] = {DESC_ALLREDUCE, DESC_BROADCAST, DESC_REDUCESCATTER};
    struct batch_world *sides = batch_world_create(2);
    struct desc *desc = describe(kinds[_i], 1, HVD_FLOAT32);
    desc->root = 10;
    batch_world_begin(sides, desc);
    batch_world_pack_all(sides);
    batch_world_run(sides);
    ck_assert_int_eq(sides->carried, 0);
    batch_world_free(sides);
}
END_TEST

START_TEST(factors_go_to_the_backend)
{
    struct batch_world *sides = make(2, DESC_ALLREDUCE, HVD_FLOAT64, 2);
    fill_memory(sides, true, counts);
    desc_of(sides)->prescale = 2;
    desc_of(sides)->postscale = 0.25;
    batch_world_pack_all(sides);
    batch_world_run(sides);
    check_sums(sides, 0.5);
    free_memory(sides);
}
END_TEST

/* One alone too, as it is converted on its way. */
START_TEST(float32_is_transferred_as_a_half_type)
{
    enum hvd_wire wire = _i % 2 == 0 ? HVD_WIRE_FLOAT16 : HVD_WIRE_BFLOAT16;
    enum hvd_dtype half = _i % 2 == 0 ? HVD_FLOAT16 : HVD_BFLOAT16;
    int tensor_count = _i / 2 == 0 ? 1 : TENSORS;
    struct batch_world *sides = make(2, DESC_ALLREDUCE, HVD_FLOAT32, tensor_count);
    fill_memory(sides, tensor_count == 1, counts);
    desc_of(sides)->wire = wire;
    batch_world_pack_all(sides);
    set_member_advance(&sides->at[1]);
    ck_assert_int_eq(sides->at[1].batch->transfer.need.dtype, half);
    ck_assert_int_eq(sides->at[1].batch->transfer.need.partial, half);
    batch_world_run(sides);
    ck_assert_int_eq(sides->at[1].batch->layout.bytes, 2 * sides->at[1].batch->transfer.count);
    check_sums(sides, 1);
    free_memory(sides);
}
END_TEST

START_TEST(other_types_are_transferred_as_they_are)
{
    struct batch_world *sides = make(2, DESC_ALLREDUCE, HVD_FLOAT64, 2);
    fill_memory(sides, true, counts);
    desc_of(sides)->wire = HVD_WIRE_FLOAT16;
    batch_world_pack_all(sides);
    ck_assert_int_eq(sides->at[0].batch->transfer.need.dtype, HVD_FLOAT64);
    batch_world_run(sides);
    check_sums(sides, 1);
    free_memory(sides);
}
END_TEST

START_TEST(half_types_have_wide_partial_results)
{
    struct desc *desc = describe(DESC_ALLREDUCE, 1, HVD_FLOAT16);
    ck_assert_int_eq(batch_need(desc, 0, 4).dtype, HVD_FLOAT16);
    ck_assert_int_eq(batch_need(desc, 0, 4).partial, HVD_FLOAT32);
    ck_assert_int_eq(batch_need(desc, 0, 4).ranks, 4);
    desc->op = HVD_ADASUM;
    ck_assert_int_eq(batch_need(desc, 0, 4).kind, COLL_ALLTOALL);
    ck_assert_int_eq(batch_need(desc, 0, 4).dtype, HVD_FLOAT32);
    ck_assert_int_eq(batch_need(desc, 0, 4).op, HVD_SUM);
    desc_release(desc);
}
END_TEST

/* A joined member has no memory at all. */
START_TEST(a_member_that_joined_gives_zeros)
{
    int tensor_count = _i == 0 ? 1 : TENSORS;
    struct batch_world *sides = make(3, DESC_ALLREDUCE, HVD_INT32, tensor_count);
    fill_memory(sides, false, counts);
    struct request *joined = sides->at[1].request;
    for (int t = 0; t < tensor_count; t++) {
        free((void *)joined->tensors[t].input);
        free(joined->tensors[t].output);
        joined->tensors[t].input = joined->tensors[t].output = NULL;
    }
    joined->placeholder = true;
    batch_world_pack_all(sides);
    batch_world_run(sides);
    for (int t = 0; t < tensor_count; t++) {
        const int32_t *output = sides->at[2].request->tensors[t].output;
        for (int64_t i = 0; i < counts[t]; i++)
            expect_equal(output[i], value_of(0, t, i) + value_of(2, t, i));
    }
    free_memory(sides);
}
END_TEST

/* Root is named by its rank in the job. */
START_TEST(a_broadcast_comes_from_its_root)
{
    int root = _i % 3;
    bool in_place = _i / 3 % 2 == 0;
    int tensor_count = _i / 6 == 0 ? 1 : TENSORS;
    struct batch_world *sides = make(3, DESC_BROADCAST, HVD_INT32, tensor_count);
    fill_memory(sides, in_place, counts);
    desc_of(sides)->root = sides->ranks[root];
    batch_world_pack_all(sides);
    batch_world_run(sides);
    for (int m = 0; m < 3; m++) {
        ck_assert_int_eq(sides->at[m].packs > 0, m == root && tensor_count > 1);
        for (int t = 0; t < tensor_count; t++) {
            const struct request_tensor *tensor = &sides->at[m].request->tensors[t];
            for (int64_t i = 0; i < counts[t]; i++) {
                expect_equal(((const int32_t *)tensor->output)[i], value_of(root, t, i));
                if (!in_place)
                    expect_equal(((const int32_t *)tensor->input)[i], value_of(m, t, i));
            }
        }
    }
    free_memory(sides);
}
END_TEST

/* ---- reducescatter ---- */

static const struct {
    int size;
    int tensor_count;
    int64_t rows[TENSORS];
    int64_t row;
    enum hvd_wire wire;
    bool in_place;
} shares[] = {
    {3, 1, {7}, 5, HVD_WIRE_EXACT, false},          {3, 3, {7, 2, 9}, 5, HVD_WIRE_EXACT, false},
    {3, 3, {7, 2, 9}, 5, HVD_WIRE_BFLOAT16, false}, {4, 1, {2}, 3, HVD_WIRE_FLOAT16, false},
    {4, 2, {1, 4}, 70000, HVD_WIRE_EXACT, false},   {1, 2, {3, 4}, 2, HVD_WIRE_EXACT, false},
    {2, 1, {5}, 3, HVD_WIRE_EXACT, true},           {2, 3, {5, 1, 2}, 3, HVD_WIRE_EXACT, true},
};

START_TEST(every_member_gets_its_share_of_the_rows)
{
    int size = shares[_i].size;
    int64_t row = shares[_i].row;
    struct batch_world *sides = batch_world_create(size);
    struct desc *desc = describe(DESC_REDUCESCATTER, shares[_i].tensor_count, HVD_FLOAT32);
    desc->wire = shares[_i].wire;
    int64_t most[TENSORS] = {0};
    for (int t = 0; t < shares[_i].tensor_count; t++) {
        desc->tensors[t].ndim = 2;
        desc->tensors[t].shape[0] = shares[_i].rows[t];
        desc->tensors[t].shape[1] = row;
        most[t] = hvd_share_rows(shares[_i].rows[t], 0, size) * row;
    }
    batch_world_begin(sides, desc);
    fill_memory(sides, shares[_i].in_place, most);
    batch_world_pack_all(sides);
    batch_world_run(sides);
    for (int m = 0; m < size; m++) {
        for (int t = 0; t < shares[_i].tensor_count; t++) {
            const float *output = sides->at[m].request->tensors[t].output;
            int64_t own = hvd_share_rows(shares[_i].rows[t], m, size) * row;
            int64_t first = 0;
            for (int k = 0; k < m; k++)
                first += hvd_share_rows(shares[_i].rows[t], k, size) * row;
            for (int64_t i = 0; i < own; i++)
                expect_equal(output[i], sum_of(size, t, first + i));
            for (int64_t i = own; i < most[t] && !shares[_i].in_place; i++)
                expect_equal(((const uint32_t *)(const void *)output)[i], 0x55555555);
        }
    }
    free_memory(sides);
}
END_TEST

/* A portion of many tiny parts does not take too long. */
START_TEST(tiny_parts_count_too)
{
    enum { MANY = 6000 };
    struct batch_world *sides = batch_world_create(4);
    struct desc *desc = describe(DESC_REDUCESCATTER, MANY, HVD_UINT8);
    static char memory[4][MANY * 4];
    for (int t = 0; t < MANY; t++)
        desc->tensors[t].shape[0] = 4;
    batch_world_begin(sides, desc);
    for (int m = 0; m < 4; m++) {
        for (int t = 0; t < MANY; t++) {
            struct request_tensor *tensor = &sides->at[m].request->tensors[t];
            tensor->input = tensor->output = &memory[m][t * 4];
        }
    }
    batch_world_pack_all(sides);
    batch_world_run(sides);
    ck_assert_int_ge(sides->at[0].packs, MANY * 4 / (int)(LAYOUT_PORTION_BYTES / 64));
    batch_world_free(sides);
}
END_TEST

/* Of the one tensor of [desc]. */
static int64_t item_bytes(const struct desc *desc)
{
    struct request *request = request_create(desc);
    request->tensors[0].count = desc_count(&desc->tensors[0]);
    int64_t bytes = batch_tensor_bytes(&request->tensors[0]);
    request_free(request);
    return bytes;
}

START_TEST(bytes_are_counted_as_transferred)
{
    struct desc *desc = describe(DESC_ALLREDUCE, 1, HVD_FLOAT32);
    desc->tensors[0].ndim = 2;
    desc->tensors[0].shape[0] = 3;
    desc->tensors[0].shape[1] = 5;
    ck_assert_int_eq(item_bytes(desc), 60);
    desc->wire = HVD_WIRE_BFLOAT16;
    ck_assert_int_eq(item_bytes(desc), 30);
    desc->kind = DESC_BROADCAST;
    ck_assert_int_eq(item_bytes(desc), 60);
    desc->kind = DESC_ALLGATHER;
    desc->tensors[0].shape[0] = 0;
    ck_assert_int_eq(item_bytes(desc), 20);
    desc->tensors[0].shape[1] = INT64_MAX / 2;
    ck_assert_int_eq(item_bytes(desc), INT64_MAX);
    desc_release(desc);
}
END_TEST

/* A batch that NCCL carries. */
static struct batch direct_batch(struct process_set *set, int64_t group_bytes)
{
    struct batch batch = {.set = set, .fusion_bytes = 100};
    batch_go_direct(&batch, NULL, false);
    batch_direct(&batch)->group_bytes = group_bytes;
    return batch;
}

START_TEST(small_batches_of_a_set_are_launched_together)
{
    struct process_set set = {.members = {.size = 2}};
    struct process_set other = set;
    struct batch leader = direct_batch(&set, 40);
    struct batch apart = direct_batch(&other, 1);
    struct batch on_host = {.set = &set};
    struct batch sized_later = direct_batch(&set, 1);
    struct batch large = direct_batch(&set, 61);
    struct batch second = direct_batch(&set, 50);
    struct batch third = direct_batch(&set, 10);
    sized_later.transfer.need.kind = COLL_ALLGATHER;
    third.transfer.need.kind = COLL_REDUCESCATTER;
    ck_assert(!batch_join(&leader, &apart));
    ck_assert(!batch_join(&leader, &on_host));
    ck_assert(!batch_join(&on_host, &leader));
    ck_assert(!batch_join(&leader, &sized_later));
    ck_assert(!batch_join(&leader, &large));
    ck_assert_ptr_null(batch_companions(&leader));
    ck_assert(batch_join(&leader, &second));
    ck_assert(batch_join(&leader, &third));
    ck_assert_ptr_eq(batch_companions(&leader), &second);
    ck_assert_ptr_eq(second.next, &third);
    ck_assert_ptr_null(third.next);
    batch_direct(&third)->group_bytes = 1;
    ck_assert(!batch_join(&leader, &third)); /* 100 bytes are in it */
    ck_assert_ptr_eq(batch_take_companions(&leader), &second);
    ck_assert_ptr_null(batch_companions(&leader));
}
END_TEST

START_TEST(a_route_has_no_part_of_another)
{
    const struct batch batch = {.route = (enum batch_route)_i};
    ck_assert(batch_host(&batch) != NULL ? _i == ROUTE_HOST || _i == ROUTE_ADASUM : _i > ROUTE_ADASUM);
    ck_assert_int_eq(batch_adasum(&batch) != NULL, _i == ROUTE_ADASUM);
    ck_assert_int_eq(batch_direct(&batch) != NULL, _i == ROUTE_DIRECT);
    ck_assert_int_eq(batch_start(&batch) != NULL, _i == ROUTE_START);
    ck_assert_int_eq(batch_set_change(&batch) != NULL, _i == ROUTE_SET_CHANGE);
}
END_TEST

/* What is cut off from a batch of the only member of a set is copied like the rest of it, and has nothing of
 * where that lies. */
START_TEST(what_is_cut_off_goes_the_same_way)
{
    struct process_set set = {.members = {.size = 1}};
    struct desc *desc = describe(DESC_ALLGATHER, 2, HVD_INT32);
    struct request *request = request_create(desc);
    struct batch *batch = batch_create(&set, BACKEND_TCP, desc, 0);
    struct batch *rest = NULL;
    batch_go_direct(batch, NULL, true);
    batch->fusion_bytes = 7;
    batch->transfer.chunk_bytes = 9;
    batch_add(batch, &request->tensors[0]);
    batch_add(batch, &request->tensors[1]);
    batch->layout.packed = true;
    batch_direct(batch)->has_elements = true;
    ck_assert_int_eq(batch_split(batch, &request->tensors[0].next, 1, &rest, NULL), HVD_OK);
    ck_assert_int_eq(batch->tensor_count, 1);
    ck_assert_int_eq(rest->tensor_count, 1);
    ck_assert_ptr_eq(rest->tensors, &request->tensors[1]);
    ck_assert_ptr_eq(rest->tail, &request->tensors[1].next);
    ck_assert_ptr_eq(rest->set, &set);
    ck_assert_int_eq(rest->fusion_bytes, 7);
    ck_assert_int_eq(rest->transfer.chunk_bytes, 9);
    ck_assert(batch_direct(rest)->alone);
    ck_assert(!batch_uses_nccl(rest));
    ck_assert(!batch_direct(rest)->has_elements);
    ck_assert(!rest->layout.packed);
    ck_assert_ptr_ne(rest->counts.sent, batch->counts.sent);
    batch_free(batch);
    batch_free(rest);
    request_free(request);
    desc_release(desc);
}
END_TEST

START_TEST(what_nccl_refuses_goes_through_host_memory)
{
    struct process_set set = {.members = {.size = 2}};
    struct request request = {.placeholder = _i == 1};
    struct request_tensor tensor = {.request = &request};
    struct gpu *gpu = (struct gpu *)&set;
    struct batch batch = {.set = &set, .tensors = &tensor};
    batch_go_direct(&batch, gpu, false);
    ck_assert(batch_uses_nccl(&batch));
    batch_go_through_host(&batch);
    ck_assert(!batch_uses_nccl(&batch));
    ck_assert_ptr_nonnull(batch_host(&batch));
    ck_assert_int_eq(batch.stage, BATCH_FETCH);
    ck_assert_ptr_eq(batch.gpu, _i == 1 ? NULL : gpu);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("batch");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, pieces_go_in_and_come_out_where_they_belong, 0, 10);
    tcase_add_test(tcase, one_alone_is_never_copied);
    tcase_add_loop_test(tcase, without_elements_nothing_is_transferred, 0, 3);
    tcase_add_test(tcase, factors_go_to_the_backend);
    tcase_add_loop_test(tcase, float32_is_transferred_as_a_half_type, 0, 4);
    tcase_add_test(tcase, other_types_are_transferred_as_they_are);
    tcase_add_test(tcase, half_types_have_wide_partial_results);
    tcase_add_loop_test(tcase, a_member_that_joined_gives_zeros, 0, 2);
    tcase_add_loop_test(tcase, a_broadcast_comes_from_its_root, 0, 12);
    tcase_add_loop_test(tcase, every_member_gets_its_share_of_the_rows, 0,
                        sizeof(shares) / sizeof(shares[0]));
    tcase_add_test(tcase, tiny_parts_count_too);
    tcase_add_test(tcase, bytes_are_counted_as_transferred);
    tcase_add_test(tcase, small_batches_of_a_set_are_launched_together);
    tcase_add_loop_test(tcase, a_route_has_no_part_of_another, 0, ROUTE_SET_CHANGE + 1);
    tcase_add_test(tcase, what_is_cut_off_goes_the_same_way);
    tcase_add_loop_test(tcase, what_nccl_refuses_goes_through_host_memory, 0, 2);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("batch", fill);
}
