/* test_eager_sum.c: whose input travels with its readiness, and what must have come for a result. */
#include "unit.h"

#include <stdlib.h>

#include "descs.h"
#include "flow/batch/eager_sum.h"

#define MEMBERS 3

static const int ranks[MEMBERS] = {1, 4, 7};
static const struct team members = {.set = 2, .rank = 1, .size = MEMBERS, .ranks = ranks};
static struct desc *desc;
static struct request *request;

static void begin(void)
{
    desc = desc_vector("w", 2);
    request = request_create(desc);
    request->tensors[0].count = 2;
    request->tensors[0].bytes = 8;
}

static void end(void)
{
    request_free(request);
    desc_release(desc);
}

START_TEST(a_small_sum_travels)
{
    ck_assert_int_eq(eager_sum_bytes(request, MEMBERS), 8);
    ck_assert_int_eq(eager_sum_bytes(request, EAGER_MAX_BYTES / 12), 8);
    ck_assert_int_eq(eager_sum_bytes(request, EAGER_MAX_BYTES / 12 + 1), 0);
    ck_assert_int_eq(eager_sum_bytes(request, 1), 0);
    request->tensors[0].bytes = INT64_C(1) << 40;
    ck_assert_int_eq(eager_sum_bytes(request, MEMBERS), 0);
    request->tensors[0].bytes = 0;
    ck_assert_int_eq(eager_sum_bytes(request, MEMBERS), 0);
}
END_TEST

START_TEST(what_is_no_small_sum_in_host_memory_does_not)
{
    struct desc plain = *desc;
    desc->kind = DESC_REDUCESCATTER;
    ck_assert_int_eq(eager_sum_bytes(request, MEMBERS), 0);
    desc->kind = plain.kind;
    desc->op = HVD_ADASUM;
    ck_assert_int_eq(eager_sum_bytes(request, MEMBERS), 0);
    desc->op = plain.op;
    desc->wire = HVD_WIRE_FLOAT16;
    ck_assert_int_eq(eager_sum_bytes(request, MEMBERS), 0);
    desc->wire = plain.wire;
    desc->tensors[0].on_device = true;
    ck_assert_int_eq(eager_sum_bytes(request, MEMBERS), 0);
}
END_TEST

/* Run it with [count] inputs of [bytes] each, from [of_ranks]. */
static int run(const int *of_ranks, int count, int bytes)
{
    unsigned char blocks[EAGER_MAX_BYTES] = {0};
    struct hvd_error err = {""};
    struct finish finish = {.queue = NULL};
    struct decision decision = {.kind = DECISION_RUN, .desc = desc, .user = request, .backend = -1};
    decision.inputs = (struct eager_inputs){count, bytes, blocks};
    for (int i = 0; i < count; i++)
        eager_make_block(blocks + (size_t)i * eager_block_bytes(bytes), of_ranks[i], "0123456789abcdef",
                         bytes);
    int rc = eager_sum_run(&finish, &members, &decision, &err);
    ck_assert_ptr_nonnull(strstr(err.text, "inputs that are not the members'"));
    return rc;
}

START_TEST(inputs_that_are_not_the_members_are_refused)
{
    static const int others[] = {1, 5, 7};
    ck_assert_int_eq(run(ranks, 2, 8), HVD_ERR_SYSTEM);
    ck_assert_int_eq(run(others, 3, 8), HVD_ERR_SYSTEM);
    ck_assert_int_eq(run(ranks, 3, 4), HVD_ERR_SYSTEM);
    ck_assert_int_eq(run(ranks, 3, 16), HVD_ERR_SYSTEM);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("eager_sum");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, a_small_sum_travels);
    tcase_add_test(tcase, what_is_no_small_sum_in_host_memory_does_not);
    tcase_add_test(tcase, inputs_that_are_not_the_members_are_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("eager_sum", fill);
}
