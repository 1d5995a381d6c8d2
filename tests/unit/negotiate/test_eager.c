/* test_eager.c: inputs that travel with the readiness for a small operation, merged. */
#include "unit.h"

#include <stdlib.h>

#include "negotiate/eager.h"

/* Those of [count] ranks from [first] on, every [stride]-th, each with its rank as a number. */
static struct eager_inputs some(unsigned char *blocks, int first, int stride, int count)
{
    struct eager_inputs inputs = {count, sizeof(int), blocks};
    for (int i = 0; i < count; i++) {
        int rank = first + i * stride;
        eager_make_block(blocks + (size_t)i * eager_block_bytes(sizeof(rank)), rank, &rank, sizeof(rank));
    }
    return inputs;
}

static void expect_ascending(const struct eager_inputs *inputs, int count)
{
    ck_assert_int_eq(inputs->count, count);
    for (int i = 0; i < count; i++) {
        int input = -1;
        memcpy(&input, eager_input(inputs, i), sizeof(input));
        ck_assert_uint_eq(eager_rank(inputs, i), (unsigned)i);
        ck_assert_int_eq(input, i);
    }
}

START_TEST(parts_in_any_order_make_one_order_of_ranks)
{
    unsigned char blocks[EAGER_MAX_BYTES];
    struct eager_merge *merge = NULL;
    static const int firsts[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int round = 0; round < 2; round++) { /* what is left of a round is not in the next one */
        for (int part = 0; part < 3; part++) {
            struct eager_inputs inputs = some(blocks, firsts[_i][part], 3, 5);
            ck_assert_int_eq(eager_add(&merge, firsts[_i][part], &inputs, NULL), HVD_OK);
        }
        ck_assert_uint_eq(merge->parts, 7);
        expect_ascending(&merge->inputs, 15);
        merge->parts = 0;
    }
    free(merge);
}
END_TEST

START_TEST(inputs_of_another_length_or_too_many_are_left_out)
{
    unsigned char blocks[2 * EAGER_MAX_BYTES];
    struct eager_merge *merge = NULL;
    int most = EAGER_MAX_BYTES / (int)eager_block_bytes(sizeof(int));
    struct eager_inputs first = some(blocks, 0, 1, most);
    ck_assert_int_eq(eager_add(&merge, 0, &first, NULL), HVD_OK);
    struct eager_inputs more = some(blocks, most, 1, 1);
    ck_assert_int_eq(eager_add(&merge, 1, &more, NULL), HVD_OK);
    more.input_bytes = 1;
    ck_assert_int_eq(eager_add(&merge, 2, &more, NULL), HVD_OK);
    ck_assert_uint_eq(merge->parts, 1);
    expect_ascending(&merge->inputs, most);
    merge->parts = 0;
    struct eager_inputs long_ones = some(blocks, 0, 1, most + 1);
    ck_assert_int_eq(eager_add(&merge, 0, &long_ones, NULL), HVD_OK);
    ck_assert_uint_eq(merge->parts, 0);
    free(merge);
}
END_TEST

START_TEST(two_inputs_of_one_rank_are_refused)
{
    unsigned char blocks[EAGER_MAX_BYTES];
    struct hvd_error err = {""};
    struct eager_merge *merge = NULL;
    struct eager_inputs inputs = some(blocks, 4, 2, 3);
    ck_assert_int_eq(eager_add(&merge, 0, &inputs, &err), HVD_OK);
    inputs = some(blocks, 5, 1, 2);
    ck_assert_int_eq(eager_add(&merge, 1, &inputs, &err), HVD_ERR_SYSTEM);
    ck_assert_str_eq(err.text, "rank 6 has two inputs for one operation");
    free(merge);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("eager");
    tcase_add_loop_test(tcase, parts_in_any_order_make_one_order_of_ranks, 0, 6);
    tcase_add_test(tcase, inputs_of_another_length_or_too_many_are_left_out);
    tcase_add_test(tcase, two_inputs_of_one_rank_are_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("eager", fill);
}
