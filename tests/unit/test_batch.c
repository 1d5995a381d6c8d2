/* test_batch.c: packing into one buffer, and out of it, in slices. */
#include "unit.h"

#include <string.h>

#include "flow/batch.h"

#define COUNT 3

static struct request requests[COUNT];
static char *inputs[COUNT], *outputs[COUNT];

/* Three operations of 1 byte, a slice and a bit, and two slices. */
static struct batch *make_batch(enum desc_kind kind, int rank, bool in_place)
{
    static const int64_t bytes[COUNT] = {1, BATCH_SLICE_BYTES + 7, 2 * BATCH_SLICE_BYTES};
    struct batch *batch = NULL;
    memset(requests, 0, sizeof(requests));
    for (int i = 0; i < COUNT; i++) {
        requests[i].desc.kind = kind;
        requests[i].count = requests[i].bytes = bytes[i];
        inputs[i] = malloc((size_t)bytes[i]);
        outputs[i] = in_place ? inputs[i] : malloc((size_t)bytes[i]);
        memset(outputs[i], 0, (size_t)bytes[i]);
        memset(inputs[i], 'a' + i, (size_t)bytes[i]);
        requests[i].input = inputs[i];
        requests[i].output = outputs[i];
        if (i == 0)
            batch = batch_create(&requests[i], 0, rank);
        batch_add(batch, &requests[i]);
    }
    return batch;
}

static void free_batch(struct batch *batch)
{
    for (int i = 0; i < COUNT; i++) {
        if (outputs[i] != inputs[i])
            free(outputs[i]);
        free(inputs[i]);
    }
    batch_free(batch);
}

START_TEST(members_go_in_and_come_out_where_they_belong)
{
    struct batch *batch = make_batch(DESC_ALLREDUCE, 0, _i == 1);
    char *buffer = malloc((size_t)batch->bytes);
    int slices = 0;
    ck_assert(batch_needs_buffer(batch));
    batch_ready(batch, buffer, 9);
    ck_assert_int_eq(batch->stage, BATCH_PACK);
    for (; batch->stage == BATCH_PACK; slices++)
        batch_pack(batch);
    ck_assert_int_eq(slices, 4);
    ck_assert_int_eq(batch->stage, BATCH_START);
    ck_assert_ptr_eq(batch->travel.input, buffer);
    ck_assert_int_eq(batch->travel.count, batch->bytes);
    ck_assert_uint_eq(batch->travel.sequence, 9);
    ck_assert_int_eq(buffer[0], 'a');
    ck_assert_int_eq(buffer[1], 'b');
    ck_assert_int_eq(buffer[BATCH_SLICE_BYTES + 7], 'b');
    ck_assert_int_eq(buffer[BATCH_SLICE_BYTES + 8], 'c');
    ck_assert_int_eq(buffer[batch->bytes - 1], 'c');
    for (int64_t i = 0; i < batch->bytes; i++)
        buffer[i] = (char)(buffer[i] - 'a' + 'A');
    batch->stage = BATCH_UNPACK;
    for (slices = 0; batch->stage == BATCH_UNPACK; slices++)
        batch_unpack(batch);
    ck_assert_int_eq(slices, 4);
    ck_assert_int_eq(batch->stage, BATCH_DONE);
    for (int i = 0; i < COUNT; i++) {
        ck_assert_int_eq(outputs[i][0], 'A' + i);
        ck_assert_int_eq(outputs[i][requests[i].bytes - 1], 'A' + i);
    }
    free(buffer);
    free_batch(batch);
}
END_TEST

START_TEST(a_broadcast_is_packed_at_its_root_only)
{
    struct batch *batch = make_batch(DESC_BROADCAST, _i, false);
    char *buffer = malloc((size_t)batch->bytes);
    batch_ready(batch, buffer, 1);
    ck_assert_int_eq(batch->stage, _i == 0 ? BATCH_PACK : BATCH_START);
    free(buffer);
    free_batch(batch);
}
END_TEST

START_TEST(one_alone_travels_in_its_own_memory)
{
    struct request request = {
        .desc = {.kind = DESC_ALLREDUCE}, .count = 4, .bytes = 4, .input = "abcd", .output = &request};
    struct batch *batch = batch_create(&request, 0, 0);
    batch_add(batch, &request);
    ck_assert(!batch_needs_buffer(batch));
    batch_ready(batch, NULL, 1);
    ck_assert_int_eq(batch->stage, BATCH_START);
    ck_assert_ptr_eq(batch->travel.input, request.input);
    ck_assert_ptr_eq(batch->travel.output, request.output);
    batch_free(batch);
}
END_TEST

START_TEST(nothing_travels_without_elements)
{
    struct request request = {.desc = {.kind = DESC_ALLREDUCE}};
    struct batch *batch = batch_create(&request, 0, 0);
    batch_add(batch, &request);
    batch_ready(batch, NULL, 1);
    ck_assert_int_eq(batch->stage, BATCH_DONE);
    batch_free(batch);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("batch");
    tcase_add_loop_test(tcase, members_go_in_and_come_out_where_they_belong, 0, 2);
    tcase_add_loop_test(tcase, a_broadcast_is_packed_at_its_root_only, 0, 2);
    tcase_add_test(tcase, one_alone_travels_in_its_own_memory);
    tcase_add_test(tcase, nothing_travels_without_elements);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("batch", fill);
}
