/* test_rank_traces.c: what the launcher says that a rank was doing when it ended. */
#include "config.h"
#include "unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "trace/flight.h"
#include "trace/trace.h"
#include "verdict/rank_traces.h"

static struct flight flight;
static struct trace_op operation = {.kind = "allreduce", .name = "first", .tensors = 1};

static void empty(void)
{
    memset(&flight, 0, sizeof(flight));
}

static void begin(void)
{
    operation.step = TRACE_SUBMITTED;
    flight_begin(&flight, &operation);
}

static void end(int status)
{
    operation.step = TRACE_DONE;
    flight_step(&flight, &operation, status);
}

static void fail_job(const char *sentence)
{
    memcpy(flight.failure, sentence, strlen(sentence));
    atomic_store(&flight.failure_bytes, strlen(sentence));
}

static void expect(const char *doing)
{
    struct verdict_facts facts = {.doing = ""};
    char crash[CRASH_TEXT_BYTES];
    rank_traces_of_flight(&flight, &facts, crash);
    ck_assert_str_eq(facts.doing, doing);
}

START_TEST(what_a_rank_was_doing_is_said)
{
    expect("computing since hvd_init");
    begin();
    expect("computing, with allreduce \"first\" in flight");
    atomic_store(&flight.waiting, 1);
    expect("in allreduce \"first\"");
    end(HVD_OK);
    expect("computing since allreduce \"first\"");
}
END_TEST

START_TEST(an_operation_that_failed_is_named_with_its_reason)
{
    begin();
    end(HVD_ERR_MISMATCH);
    fail_job("rank 1 (n1) was lost: its process ended");
    expect("after allreduce \"first\" failed: rank 1 (n1) was lost: its process ended");
}
END_TEST

/* The next operation was refused, so that it is in no record; the last one that is there went well. */
START_TEST(a_rank_that_knew_of_the_failure_says_so)
{
    begin();
    end(HVD_OK);
    fail_job("rank 1 (n1) was lost: its process ended");
    expect("after allreduce \"first\", when the job had failed: rank 1 (n1) was lost: its process ended");
}
END_TEST

static bool left_in_order(void)
{
    struct verdict_end found = {.left = false};
    rank_traces_of_end(&flight, &found);
    return found.left;
}

START_TEST(a_rank_that_left_is_told_from_one_that_failed_and_left)
{
    struct verdict_end nothing = {.left = true};
    rank_traces_of_end(NULL, &nothing);
    ck_assert(!nothing.left);
    ck_assert(!left_in_order()); /* it has only joined */
    atomic_store(&flight.left, 1);
    ck_assert(left_in_order());
    begin();
    ck_assert(!left_in_order());
    end(HVD_OK);
    ck_assert(left_in_order());
    begin();
    end(HVD_ERR_TIMEOUT);
    ck_assert(!left_in_order());
    begin();
    end(HVD_OK);
    fail_job("rank 1 (n1) was lost: its process ended");
    ck_assert(!left_in_order());
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("rank_traces");
    tcase_add_checked_fixture(tcase, empty, NULL);
    tcase_add_test(tcase, what_a_rank_was_doing_is_said);
    tcase_add_test(tcase, an_operation_that_failed_is_named_with_its_reason);
    tcase_add_test(tcase, a_rank_that_knew_of_the_failure_says_so);
    tcase_add_test(tcase, a_rank_that_left_is_told_from_one_that_failed_and_left);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("rank_traces", fill);
}
