/* test_batch_queue.c: batches keep the agreed order, whatever is cut off, parted or launched. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "flow/batch/batch_queue.h"

static struct trials trials;
static struct finish finish;
static struct batch_queue queue;
static struct process_set set;
static struct batch batches[5];

static void begin(void)
{
    memset(&trials, 0, sizeof(trials));
    memset(&finish, 0, sizeof(finish));
    queue = (struct batch_queue){.trials = &trials, .finish = &finish};
    batch_queue_init(&queue);
    set = (struct process_set){.members = {.set = 3, .size = 2}};
    for (int i = 0; i < 5; i++) {
        batches[i] = (struct batch){.set = &set, .fusion_bytes = 100};
        batch_go_direct(&batches[i], NULL, false);
    }
}

/* The queue holds these batches, by number, in this order, and nothing else. */
static void expect(const char *numbers)
{
    const struct batch *at = batch_queue_first(&queue).batch;
    ck_assert_int_eq(batch_queue_count(&queue), (int)strlen(numbers));
    for (const char *number = numbers; *number != 0; number++, at = at->next)
        ck_assert_ptr_eq(at, &batches[*number - '0']);
    ck_assert_ptr_null(at);
}

START_TEST(batches_leave_as_they_came)
{
    expect("");
    ck_assert(batch_queue_is_empty(&queue));
    batch_queue_append(&queue, &batches[0]);
    batch_queue_append(&queue, &batches[1]);
    expect("01");
    ck_assert_ptr_eq(batch_queue_remove_first(&queue), &batches[0]);
    ck_assert_ptr_eq(batch_queue_remove_first(&queue), &batches[1]);
    expect("");
    batch_queue_append(&queue, &batches[2]);
    expect("2");
}
END_TEST

/* What is appended after that comes last, also if the rest was put at the end. */
START_TEST(what_is_cut_off_comes_next)
{
    batch_queue_append(&queue, &batches[0]);
    batch_queue_insert_behind(&queue, &batches[0], &batches[1]);
    batch_queue_append(&queue, &batches[2]);
    batch_queue_insert_behind(&queue, &batches[1], &batches[3]);
    batch_queue_append(&queue, &batches[4]);
    expect("01324");
}
END_TEST

START_TEST(companions_part_in_their_order)
{
    batch_join(&batches[0], &batches[1]);
    batch_join(&batches[0], &batches[2]);
    batch_queue_append(&queue, &batches[0]);
    if (_i == 1)
        batch_queue_append(&queue, &batches[3]);
    expect(_i == 1 ? "03" : "0");
    batch_queue_part_companions(&queue, &batches[0]);
    ck_assert_ptr_null(batch_companions(&batches[0]));
    expect(_i == 1 ? "0123" : "012");
    batch_queue_part_companions(&queue, &batches[0]);
    batch_queue_append(&queue, &batches[4]);
    expect(_i == 1 ? "01234" : "0124");
}
END_TEST

START_TEST(launched_batches_are_counted_apart)
{
    batches[0].number = 7;
    batches[1].number = 8;
    batch_queue_append(&queue, &batches[0]);
    batch_queue_append(&queue, &batches[1]);
    batch_queue_launch_first(&queue);
    ck_assert_int_eq(batches[0].stage, BATCH_DONE);
    expect("1");
    ck_assert(batch_queue_has_launched(&queue));
    ck_assert(batch_queue_is_launched(&queue, 3, 7));
    ck_assert(!batch_queue_is_launched(&queue, 3, 8));
    ck_assert(!batch_queue_is_launched(&queue, 4, 7));
    batch_queue_launch_first(&queue);
    expect("");
    ck_assert(!batch_queue_is_empty(&queue));
    uint64_t moves = batch_queue_first_launched(&queue).moves;
    ck_assert_ptr_eq(batch_queue_first_launched(&queue).batch, &batches[0]);
    ck_assert_ptr_eq(batch_queue_remove_launched(&queue), &batches[0]);
    ck_assert_ptr_eq(batch_queue_first_launched(&queue).batch, &batches[1]);
    ck_assert_uint_eq(batch_queue_first_launched(&queue).moves, moves + 1);
    batch_queue_remove_launched(&queue);
    ck_assert(batch_queue_is_empty(&queue));
    batch_queue_append_launched(&queue, &batches[2]);
    ck_assert_ptr_eq(batch_queue_first_launched(&queue).batch, &batches[2]);
}
END_TEST

START_TEST(nccl_has_what_connects_or_launches)
{
    static const enum batch_stage stages[] = {BATCH_CONNECTING, BATCH_LAUNCHING, BATCH_CONNECT, BATCH_LAUNCH};
    ck_assert(!batch_queue_is_in_nccl(&queue));
    batch_queue_append(&queue, &batches[0]);
    batches[0].stage = stages[_i];
    ck_assert_int_eq(batch_queue_is_in_nccl(&queue), _i < 2);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("batch_queue");
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, batches_leave_as_they_came);
    tcase_add_test(tcase, what_is_cut_off_comes_next);
    tcase_add_loop_test(tcase, companions_part_in_their_order, 0, 2);
    tcase_add_test(tcase, launched_batches_are_counted_apart);
    tcase_add_loop_test(tcase, nccl_has_what_connects_or_launches, 0, 4);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("batch_queue", fill);
}
