/* test_spans.c: where the elements of a batch lie, in one piece or in spans. */
#include "unit.h"

#include "batches.h"
#include "backend/spans.h"

#define COUNT 60

/* Spans of 1, 2, 3, ... elements in an array that is larger, with gaps between them. */
static int cut(struct backend_span *spans, int64_t bytes, char *input, char *output)
{
    int64_t begin = 0, at = 0;
    int count = 0;
    for (int64_t length = 1; begin < COUNT; length++) {
        int64_t left = COUNT - begin;
        length = length < left ? length : left;
        spans[count++] = (struct backend_span){input + at * bytes, output + at * bytes, begin, length};
        begin += length;
        at += length + 1;
    }
    return count;
}

START_TEST(copies_are_those_of_the_elements)
{
    int64_t bytes = INT64_C(1) << _i;
    char input[2 * COUNT * 8], output[2 * COUNT * 8], expected[2 * COUNT * 8], copy[COUNT * 8];
    struct backend_span spans[COUNT];
    struct backend_batch batch = {.count = COUNT, .spans = spans};
    batch.span_count = cut(spans, bytes, input, output);
    struct span_cursor span_cursor = {&batch, bytes, 0};
    for (size_t i = 0; i < sizeof(input); i++)
        input[i] = (char)(i * 37 + i / 250);
    for (int64_t begin = 0; begin < COUNT; begin++) {
        for (int64_t count = 0; begin + count <= COUNT; count++) {
            memset(output, 0, sizeof(output));
            memset(expected, 0, sizeof(expected));
            spans_read(&span_cursor, copy, begin, count);
            spans_write(&span_cursor, begin, copy, count);
            for (int i = 0; i < batch.span_count; i++) {
                for (int64_t k = 0; k < spans[i].count; k++) {
                    int64_t element = spans[i].begin + k;
                    const char *from = (const char *)spans[i].input + k * bytes;
                    if (element < begin || element >= begin + count)
                        continue;
                    ck_assert_mem_eq(copy + (element - begin) * bytes, from, (size_t)bytes);
                    memcpy(expected + (from - input), from, (size_t)bytes);
                }
            }
            ck_assert_mem_eq(output, expected, sizeof(expected));
        }
    }
}
END_TEST

START_TEST(one_span_is_contiguous)
{
    char input[8], output[8];
    struct backend_batch batch = {.count = 4, .input = input, .output = output};
    struct span_cursor span_cursor = {&batch, 2, 0};
    struct contig place = spans_at(&span_cursor, 1, 3);
    ck_assert_ptr_eq(place.input, input + 2);
    ck_assert_ptr_eq(place.output, output + 2);
    ck_assert_int_eq(place.count, 3);
    batch.input = NULL;
    place = spans_at(&span_cursor, 1, 3);
    ck_assert_ptr_null(place.input);
    ck_assert_ptr_eq(place.output, output + 2);
}
END_TEST

/* spans_within counts the elements up to the end of the given number of spans, but never more than were
 * requested. */
START_TEST(counts_the_elements_of_a_number_of_spans)
{
    char input[2 * COUNT * 8], output[2 * COUNT * 8];
    struct backend_span spans[COUNT];
    struct backend_batch batch = {.count = COUNT, .spans = spans};
    batch.span_count = cut(spans, 8, input, output);
    struct span_cursor span_cursor = {&batch, 8, 0};
    struct span_cursor walk = {&batch, 8, 0};
    for (int64_t begin = 0; begin < COUNT; begin++) {
        int64_t end = begin;
        for (int of = 1; of <= _i && end < COUNT; of++)
            end += spans_at(&walk, end, COUNT).count;
        ck_assert_int_eq(spans_within(&span_cursor, begin, COUNT - begin, _i), end - begin);
        ck_assert_int_eq(spans_within(&span_cursor, begin, 1, _i), 1);
    }
    batch.spans = NULL;
    ck_assert_int_eq(spans_within(&span_cursor, 3, COUNT - 3, _i), COUNT - 3);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("spans");
    unit_add_rounds(tcase, counts_the_elements_of_a_number_of_spans, 1, 14);
    unit_add_rounds(tcase, copies_are_those_of_the_elements, 0, 4);
    tcase_add_test(tcase, one_span_is_contiguous);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("spans", fill);
}
