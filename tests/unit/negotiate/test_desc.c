/* test_desc.c: descriptions of operations: equal or not, and the words for it. */
#include "unit.h"

#include <math.h>
#include <string.h>

#include "base/backend_id.h"
#include "base/dtype.h"
#include "descs.h"

START_TEST(the_last_use_frees_it)
{
    struct desc *desc = desc_group(3, 4);
    ck_assert_ptr_eq(desc_hold(desc), desc);
    desc_release(desc);
    ck_assert_str_eq(desc->tensors[2].name, "c");
    desc_release(desc); /* a leak or a second free is the sanitizer's to find */
    desc_release(NULL);
}
END_TEST

START_TEST(a_new_one_has_neutral_factors)
{
    struct desc *desc = desc_create(2);
    ck_assert(desc->prescale == 1 && desc->postscale == 1);
    ck_assert_int_eq(desc->tensor_count, 2);
    desc_release(desc);
}
END_TEST

static struct desc *plain(void)
{
    return desc_vector("w", 4);
}

static struct desc *negated(void)
{
    struct desc *desc = plain();
    desc->prescale = -1;
    return desc;
}

/* Pairs that differ, and how that reads. */
static struct desc *of_kind(enum desc_kind kind, const char *name, int ndim, int64_t second)
{
    struct desc *desc = desc_vector(name, 0);
    desc->kind = kind;
    desc->tensors[0].ndim = ndim;
    desc->tensors[0].shape[1] = ndim > 1 ? second : 0;
    return desc;
}

static void differ(struct desc *a, struct desc *b, const char *what, const char *a_text, const char *b_text)
{
    struct desc_difference difference;
    ck_assert(!desc_equal(a, b));
    ck_assert(desc_compare(a, b, &difference));
    ck_assert_str_eq(difference.what, what);
    ck_assert_str_eq(difference.a, a_text);
    ck_assert_str_eq(difference.b, b_text);
    desc_release(a);
    desc_release(b);
}

START_TEST(shapes_and_types_that_differ_are_named)
{
    struct desc *a = plain();
    struct desc *b = desc_vector("w", 5);
    differ(a, b, "allreduce \"w\"", "float32[4]", "float32[5]");
    a = plain();
    b = plain();
    b->tensors[0].dtype = HVD_FLOAT64;
    differ(a, b, "allreduce \"w\"", "float32[4]", "float64[4]");
    a = plain();
    b = plain();
    b->tensors[0].on_device = true;
    differ(a, b, "allreduce \"w\"", "float32 in host memory", "float32 on a GPU");
    a = plain();
    b = plain();
    b->tensors[0].ndim = 2;
    b->tensors[0].shape[1] = 64;
    a->set = b->set = 3;
    differ(a, b, "allreduce \"w\" in process set 3", "float32[4]", "float32[4,64]");
    a = plain();
    b = plain();
    b->tensors[0].ndim = 0;
    differ(a, b, "allreduce \"w\"", "float32[4]", "float32[]");
}
END_TEST

START_TEST(kinds_operations_factors_wires_and_roots_are_named)
{
    struct desc *a = plain();
    struct desc *b = plain();
    b->kind = DESC_BROADCAST;
    differ(a, b, "\"w\"", "allreduce", "broadcast");
    a = plain();
    b = plain();
    b->op = HVD_PRODUCT;
    differ(a, b, "allreduce \"w\"", "sum", "product");
    a = plain();
    b = plain();
    b->prescale = 1.0 / 3;
    differ(a, b, "allreduce \"w\"", "prescale 1", "prescale 0.3333333333333333");
    a = plain();
    b = plain();
    a->postscale = 0.1;
    b->postscale = nextafter(0.1, 1);
    differ(a, b, "allreduce \"w\"", "postscale 0.1", "postscale 0.10000000000000002");
    a = plain();
    b = plain();
    b->wire = HVD_WIRE_BFLOAT16;
    differ(a, b, "allreduce \"w\"", "wire exact", "wire bfloat16");
    a = of_kind(DESC_BROADCAST, "w", 1, 0);
    b = of_kind(DESC_BROADCAST, "w", 1, 0);
    b->root = 7;
    differ(a, b, "broadcast \"w\"", "root 0", "root 7");
    a = of_kind(DESC_REDUCESCATTER, "w", 1, 0);
    b = of_kind(DESC_REDUCESCATTER, "w", 1, 0);
    b->splits = 0x3f;
    differ(a, b, "reducescatter \"w\"", "no splits", "splits");
    a = of_kind(DESC_REDUCESCATTER, "w", 1, 0);
    b = of_kind(DESC_REDUCESCATTER, "w", 1, 0);
    a->splits = 0x50;
    b->splits = 0x3f;
    differ(a, b, "reducescatter \"w\"", "splits (list 50)", "splits (list 3f)");
}
END_TEST

START_TEST(groups_that_differ_are_named)
{
    struct desc *a = desc_group(3, 4);
    struct desc *b = desc_group(2, 4);
    differ(a, b, "allreduce \"a\"", "a group of 3 tensors", "a group of 2 tensors");
    a = desc_group(1, 4);
    b = desc_vector("a", 4);
    differ(a, b, "allreduce \"a\"", "a group of 1 tensor", "a tensor alone");
    a = desc_group(2, 4);
    b = desc_group(2, 4);
    b->persistent = true;
    differ(a, b, "allreduce \"a\"", "one that runs once", "a persistent operation");
    a = desc_group(3, 4);
    b = desc_group(3, 4);
    b->tensors[2].shape[0] = 5;
    differ(a, b, "grouped allreduce \"a\" and 2 more", "float32[4] as \"c\"", "float32[5] as \"c\"");
    a = desc_group(2, 4);
    b = desc_group(2, 4);
    b->tensors[1].name[0] = 'x';
    differ(a, b, "grouped allreduce \"a\" and 1 more", "\"b\" as tensor 2 of the group",
           "\"x\" as tensor 2 of the group");
}
END_TEST

START_TEST(gathered_tensors_differ_behind_their_first_dimension)
{
    struct desc *a = of_kind(DESC_ALLGATHER, "g", 1, 0);
    struct desc *b = of_kind(DESC_ALLGATHER, "g", 2, 3);
    differ(a, b, "allgather \"g\"", "1 dimension", "2 dimensions");
    a = of_kind(DESC_ALLTOALL, "g", 2, 4);
    b = of_kind(DESC_ALLTOALL, "g", 2, 3);
    differ(a, b, "alltoall \"g\"", "4 in dimension 1", "3 in dimension 1");
    a = of_kind(DESC_ALLGATHER, "g", 2, 4);
    b = of_kind(DESC_ALLGATHER, "g", 2, 4);
    b->tensors[0].dtype = HVD_BOOL;
    differ(a, b, "allgather \"g\"", "float32", "bool");
}
END_TEST

START_TEST(sets_that_differ_are_named)
{
    struct desc *a = desc_set_add("0-3,8", 5);
    struct desc *b = desc_set_add("0-2,8", 4);
    differ(a, b, "hvd_set_add", "process set 0-3,8", "process set 0-2,8");
    a = desc_set_add("0-3,...", 5);
    b = desc_set_add("0-3,...", 5);
    a->tensors[0].shape[1] = 0xab;
    b->tensors[0].shape[1] = 0xcd;
    differ(a, b, "hvd_set_add", "process set 0-3,... of 5 ranks (list ab)",
           "process set 0-3,... of 5 ranks (list cd)");
    a = desc_set_add("0-3", 4);
    b = desc_own(DESC_BARRIER, HVD_ALL_RANKS, DESC_SET_ADD_NAME);
    b->root = 2;
    differ(a, b, "hvd_set_add", "process set 0-3", "the ranks of process set 2");
    a = desc_set_remove(1);
    b = desc_set_remove(2);
    differ(a, b, "hvd_set_remove", "process set 1", "process set 2");
}
END_TEST

START_TEST(equal_ones_differ_in_their_backends_only)
{
    struct desc_difference difference;
    struct desc *a = plain();
    struct desc *b = plain();
    struct desc *c = negated();
    ck_assert(desc_equal(a, b) && !desc_compare(a, b, &difference));
    ck_assert_str_eq(difference.what, "allreduce \"w\"");
    desc_compare_backends(a, 1u << BACKEND_TCP | 1u << BACKEND_MPI, 0, &difference);
    ck_assert_str_eq(difference.what, "allreduce \"w\"");
    ck_assert_str_eq(difference.a, "backends mpi tcp");
    ck_assert_str_eq(difference.b, "no backend for it");
    ck_assert(!desc_equal(a, c));
    desc_release(a);
    desc_release(b);
    desc_release(c);
}
END_TEST

static void reads(struct desc *desc, const char *expected)
{
    char title[DESC_TITLE_BYTES];
    desc_title(desc, title, sizeof(title));
    ck_assert_str_eq(title, expected);
    desc_release(desc);
}

static struct desc *persistent(int count)
{
    struct desc *desc = desc_group(count, 4);
    desc->persistent = true;
    return desc;
}

START_TEST(titles_read_like_the_calls)
{
    struct desc *stop = desc_vector(DESC_STOP_NAME, 1);
    struct desc *longest = desc_group(HVD_MAX_GROUP, 1);
    char expected[DESC_TITLE_BYTES];
    reads(plain(), "allreduce \"w\"");
    reads(desc_group(1, 4), "allreduce \"a\"");
    reads(desc_group(3, 4), "grouped allreduce \"a\" and 2 more");
    reads(persistent(1), "persistent allreduce \"a\"");
    reads(persistent(3), "persistent allreduce \"a\" and 2 more");
    reads(desc_own(DESC_BARRIER, 3, DESC_BARRIER_NAME), "barrier in process set 3");
    reads(desc_own(DESC_BARRIER, 0, DESC_SET_ADD_NAME), "hvd_set_add");
    reads(desc_own(DESC_JOIN, 0, DESC_JOIN_NAME), "join");
    reads(desc_own(DESC_SHUTDOWN, 0, DESC_SHUTDOWN_NAME), "hvd_shutdown");
    reads(desc_set_add("0-3,8", 5), "hvd_set_add of ranks 0-3,8");
    reads(desc_set_add_by_members("0-3,8", 5), "hvd_set_add_by_members of ranks 0-3,8");
    reads(desc_set_remove(4), "hvd_set_remove of process set 4");
    reads(stop, "hvd_should_stop");
    longest->kind = DESC_REDUCESCATTER;
    longest->set = INT32_MAX;
    longest->persistent = true;
    memset(longest->tensors[0].name, 'n', HVD_MAX_NAME);
    snprintf(expected, sizeof(expected),
             "persistent reducescatter \"%s\" and 16383 more in process set 2147483647",
             longest->tensors[0].name);
    reads(longest, expected);
}
END_TEST

START_TEST(joined_ranks_take_part_with_zeros_only_where_that_changes_nothing)
{
    static const bool joining[] = {
        [HVD_SUM] = true, [HVD_AVERAGE] = true, [HVD_ADASUM] = true, [HVD_BOR] = true, [HVD_BXOR] = true};
    struct desc *desc = plain();
    for (int op = 0; op_name((enum hvd_op)op) != NULL; op++) {
        desc->op = (enum hvd_op)op;
        ck_assert_int_eq(desc_allows_joined(desc), joining[op]);
    }
    desc->op = HVD_SUM;
    for (int kind = DESC_BROADCAST; kind < DESC_KIND_COUNT; kind++) {
        desc->kind = (enum desc_kind)kind;
        ck_assert_int_eq(desc_allows_joined(desc), kind == DESC_BARRIER || kind == DESC_JOIN);
    }
    desc_release(desc);
}
END_TEST

START_TEST(sums_of_bytes_saturate)
{
    ck_assert_int_eq(bytes_add(3, 4), 7);
    ck_assert_int_eq(bytes_add(INT64_MAX, 0), INT64_MAX);
    ck_assert_int_eq(bytes_add(INT64_MAX - 1, 2), INT64_MAX);
    ck_assert_int_eq(bytes_add(INT64_MAX, INT64_MAX), INT64_MAX);
    ck_assert_int_lt(HVD_MAX_GROUP * BYTES_MAX, INT64_MAX); /* of a group none does */
}
END_TEST

START_TEST(elements_are_counted_without_overflow)
{
    struct desc_tensor tensor = {.dtype = HVD_FLOAT64, .ndim = 2, .shape = {INT64_C(1) << 31, 4}};
    ck_assert_int_eq(desc_count(&tensor), INT64_C(1) << 33);
    tensor.shape[0] = INT64_C(1) << 60;
    ck_assert_int_eq(desc_count(&tensor), -1);
    tensor.shape[0] = INT64_C(1) << 42; /* 2^47 bytes */
    ck_assert_int_eq(desc_count(&tensor), INT64_C(1) << 44);
    tensor.shape[0]++;
    ck_assert_int_eq(desc_count(&tensor), -1);
    tensor.shape[1] = 0;
    ck_assert_int_eq(desc_count(&tensor), 0);
    tensor.shape[1] = -1;
    ck_assert_int_eq(desc_count(&tensor), -1);
    tensor.ndim = 0;
    ck_assert_int_eq(desc_count(&tensor), 1);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("desc");
    tcase_add_test(tcase, the_last_use_frees_it);
    tcase_add_test(tcase, a_new_one_has_neutral_factors);
    tcase_add_test(tcase, shapes_and_types_that_differ_are_named);
    tcase_add_test(tcase, kinds_operations_factors_wires_and_roots_are_named);
    tcase_add_test(tcase, groups_that_differ_are_named);
    tcase_add_test(tcase, gathered_tensors_differ_behind_their_first_dimension);
    tcase_add_test(tcase, sets_that_differ_are_named);
    tcase_add_test(tcase, equal_ones_differ_in_their_backends_only);
    tcase_add_test(tcase, titles_read_like_the_calls);
    tcase_add_test(tcase, joined_ranks_take_part_with_zeros_only_where_that_changes_nothing);
    tcase_add_test(tcase, sums_of_bytes_saturate);
    tcase_add_test(tcase, elements_are_counted_without_overflow);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("desc", fill);
}
