/* test_matching.c: which receive gets which message. */
#include "config.h"
#include "unit.h"

#include "p2p/matching.h"

static struct p2p_matching matching;

START_TEST(the_oldest_that_fits_is_taken)
{
    struct envelope any = {.set = 0, .source = HVD_ANY_SOURCE, .tag = 1};
    struct envelope other_set = {.set = 1, .source = 3, .tag = 1},
                    other_tag = {.set = 0, .source = 3, .tag = 2};
    struct envelope exact = {.set = 0, .source = 3, .tag = 1}, message = exact,
                    stranger = {.source = 4, .tag = 1};
    matching_init(&matching);
    matching_add_receive(&matching, &other_set);
    matching_add_receive(&matching, &other_tag);
    matching_add_receive(&matching, &exact);
    matching_add_receive(&matching, &any);
    ck_assert_ptr_eq(matching_take_receive(&matching, &message), &exact);
    ck_assert_ptr_eq(matching_take_receive(&matching, &stranger), &any);
    ck_assert_ptr_null(matching_take_receive(&matching, &message));
    ck_assert_ptr_null(matching_take_arrival(&matching, &other_tag));
}
END_TEST

START_TEST(messages_keep_their_order)
{
    struct envelope messages[4];
    struct envelope any = {.set = 2, .source = HVD_ANY_SOURCE, .tag = 7},
                    of_one = {.set = 2, .source = 1, .tag = 7};
    matching_init(&matching);
    for (int i = 0; i < 4; i++) {
        messages[i] = (struct envelope){.set = 2, .source = i % 2, .tag = 7};
        matching_add_arrival(&matching, &messages[i]);
    }
    ck_assert_ptr_eq(matching_take_arrival(&matching, &of_one), &messages[1]);
    ck_assert_ptr_eq(matching_take_arrival(&matching, &any), &messages[0]);
    ck_assert_ptr_eq(matching_take_arrival(&matching, &any), &messages[2]);
    ck_assert_ptr_eq(matching_take_arrival(&matching, &of_one), &messages[3]);
    ck_assert_ptr_null(matching_take_arrival(&matching, &any));
}
END_TEST

/* Sets and tags that share a bucket are still apart. */
START_TEST(those_of_one_bucket_are_told_apart)
{
    struct envelope receive = {.set = 0, .source = 0, .tag = 5};
    struct envelope far = {.set = 0, .source = 0, .tag = 5 + MATCHING_BUCKETS};
    matching_init(&matching);
    matching_add_receive(&matching, &far);
    ck_assert_ptr_null(matching_take_receive(&matching, &receive));
    matching_add_receive(&matching, &receive);
    ck_assert_ptr_eq(matching_take_receive(&matching, &(struct envelope){.tag = 5}), &receive);
}
END_TEST

START_TEST(a_set_or_a_source_is_removed_whole)
{
    struct envelope of_set = {.set = 1, .source = 2, .tag = 0}, other = {.set = 0, .source = 2, .tag = 0};
    struct envelope any = {.set = 0, .source = HVD_ANY_SOURCE, .tag = 9};
    matching_init(&matching);
    matching_add_receive(&matching, &of_set);
    matching_add_receive(&matching, &other);
    matching_add_receive(&matching, &any);
    ck_assert_ptr_eq(matching_remove_receive(&matching, 1, HVD_ANY_SOURCE), &of_set);
    ck_assert_ptr_null(matching_remove_receive(&matching, 1, HVD_ANY_SOURCE));
    ck_assert_ptr_eq(matching_remove_receive(&matching, MATCHING_ANY_SET, 2), &other);
    ck_assert_ptr_null(matching_remove_receive(&matching, MATCHING_ANY_SET, 2));
    ck_assert_ptr_eq(matching_remove_receive(&matching, MATCHING_ANY_SET, HVD_ANY_SOURCE), &any);
    ck_assert_ptr_null(matching_remove_arrival(&matching, MATCHING_ANY_SET));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("matching");
    tcase_add_test(tcase, the_oldest_that_fits_is_taken);
    tcase_add_test(tcase, messages_keep_their_order);
    tcase_add_test(tcase, those_of_one_bucket_are_told_apart);
    tcase_add_test(tcase, a_set_or_a_source_is_removed_whole);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("matching", fill);
}
