/* test_blocks.c: walks over blocks, upwards and downwards, piece by piece. */
#include "unit.h"

#include "backend/sched/blocks.h"

static const int64_t counts[] = {0, 5, 0, 0, 7, 1, 0};

#define COUNT (int)(sizeof(counts) / sizeof(counts[0]))

START_TEST(adds_up)
{
    struct blocks blocks = blocks_of(counts, COUNT);
    ck_assert_int_eq(blocks.elements, 13);
    ck_assert_int_eq(blocks_chunks(&blocks, 0, COUNT, 3), 2 + 3 + 1);
    ck_assert_int_eq(blocks_chunks(&blocks, 0, COUNT, 100), 3);
    ck_assert_int_eq(blocks_chunks(&blocks, 2, 4, 3), 0);
    ck_assert_int_eq(blocks_chunks(&blocks, 4, 4, 3), 0);
    ck_assert_int_eq(blocks_chunks(&blocks, 4, 5, 7), 1);
}
END_TEST

/* From every block, each way: all pieces come once, in order, each inside its block. */
START_TEST(walks_once_round)
{
    struct blocks blocks = blocks_of(counts, COUNT);
    for (int step = -1; step <= 1; step += 2) {
        struct block_cursor cursor = block_cursor_begin(&blocks, _i, step);
        int64_t seen = 0;
        int block = _i;
        for (int64_t piece = 0; piece < 6; piece++) {
            int64_t start = 0;
            struct block_segment span = block_cursor_next(&blocks, &cursor, 3);
            while (block != span.block)
                block = (block + step + COUNT) % COUNT;
            for (int i = 0; i < block; i++)
                start += counts[i];
            ck_assert_int_gt(span.count, 0);
            ck_assert_int_le(span.count, 3);
            ck_assert_int_ge(span.offset, start);
            ck_assert_int_le(span.offset + span.count, start + counts[block]);
            for (int64_t i = span.offset; i < span.offset + span.count; i++) {
                ck_assert_int_eq(seen >> i & 1, 0);
                seen |= INT64_C(1) << i;
            }
        }
        ck_assert_int_eq(seen, (1 << 13) - 1);
    }
}
END_TEST

START_TEST(counts_beyond_32_bits)
{
    const int64_t large[] = {INT64_C(5000000000), INT64_C(7000000000)};
    struct blocks blocks = blocks_of(large, 2);
    ck_assert_int_eq(blocks_chunks(&blocks, 0, 2, INT64_C(4000000000)), 2 + 2);
    struct block_cursor cursor = block_cursor_begin(&blocks, 1, 1);
    struct block_segment span = block_cursor_next(&blocks, &cursor, INT64_C(4000000000));
    ck_assert_int_eq(span.offset, INT64_C(5000000000));
    span = block_cursor_next(&blocks, &cursor, INT64_C(4000000000));
    ck_assert_int_eq(span.offset, INT64_C(9000000000));
    ck_assert_int_eq(span.count, INT64_C(3000000000));
}
END_TEST

START_TEST(bears_nothing_at_all)
{
    const int64_t none[] = {0, 0, 0};
    struct blocks blocks = blocks_of(none, 3);
    for (int step = -1; step <= 1; step += 2) {
        struct block_cursor cursor = block_cursor_begin(&blocks, 1, step);
        ck_assert_int_eq(block_cursor_next(&blocks, &cursor, 3).count, 0);
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("blocks");
    tcase_add_test(tcase, adds_up);
    tcase_add_loop_test(tcase, walks_once_round, 0, COUNT);
    tcase_add_test(tcase, counts_beyond_32_bits);
    tcase_add_test(tcase, bears_nothing_at_all);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("blocks", fill);
}
