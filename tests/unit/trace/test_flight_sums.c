/* test_flight_sums.c: how much a rank has carried, in all and of late. */
#include "unit.h"

#include "trace/flight_sums.h"

#define START_US INT64_C(1000000000)
#define SECOND   INT64_C(1000000)

static struct flight_sums sums;
static int64_t recent[SUM_COUNT], from_us;

static void begin(void)
{
    sums = (struct flight_sums){.next_mark = 0};
    flight_sums_begin(&sums, START_US);
}

static void batch(int64_t at_us)
{
    flight_count_decided(&sums, true);
    flight_count_batch(&sums, BACKEND_TCP, 3, 1000, at_us);
}

/* Of the last ten seconds there are so many batches, in so many seconds. */
static void expect(int64_t now_us, int64_t batches, int64_t seconds)
{
    ck_assert(flight_read_recent(&sums, now_us - 10 * SECOND, recent, &from_us));
    ck_assert_int_eq(recent[SUM_BATCHES], batches);
    ck_assert_int_eq(recent[SUM_TENSORS], 3 * batches);
    ck_assert_int_eq(recent[SUM_BYTES + BACKEND_TCP], 1000 * batches);
    ck_assert_int_eq(now_us - from_us, seconds * SECOND);
}

START_TEST(what_a_rank_has_carried_is_added_up)
{
    struct flight_totals totals;
    flight_count_decided(&sums, false);
    batch(START_US + SECOND);
    flight_count_commit(&sums, START_US + 2 * SECOND);
    flight_read_totals(&sums, &totals);
    ck_assert_int_eq(totals.sums[SUM_OPERATIONS], 2);
    ck_assert_int_eq(totals.sums[SUM_CACHED], 1);
    ck_assert_int_eq(totals.sums[SUM_BATCHES], 1);
    ck_assert_int_eq(totals.sums[SUM_TENSORS], 3);
    ck_assert_int_eq(totals.sums[SUM_BYTES + BACKEND_TCP], 1000);
    ck_assert_int_eq(totals.sums[SUM_BYTES + BACKEND_SHM], 0);
    ck_assert_int_eq(totals.commits, 1);
    ck_assert_int_eq(totals.committed_us, START_US + 2 * SECOND);
}
END_TEST

START_TEST(a_rank_that_has_just_joined_counts_from_then_on)
{
    batch(START_US + SECOND);
    batch(START_US + 2 * SECOND);
    expect(START_US + 4 * SECOND, 2, 4);
}
END_TEST

START_TEST(the_time_is_about_as_long_as_asked_for)
{
    for (int i = 1; i <= 1000; i++)
        batch(START_US + i * SECOND);
    ck_assert(flight_read_recent(&sums, START_US + 990 * SECOND, recent, &from_us));
    int64_t seconds = 1000 - (from_us - START_US) / SECOND;
    ck_assert(seconds >= 10 && seconds <= 15);
    ck_assert_int_eq(recent[SUM_BATCHES], seconds + 1);
    ck_assert(flight_read_recent(&sums, START_US + 700 * SECOND, recent, &from_us));
    ck_assert(from_us <= START_US + 700 * SECOND && from_us >= START_US + 695 * SECOND);
}
END_TEST

/* A job that stands still has carried nothing of late, and one that went on after a pause what came since. */
START_TEST(a_pause_counts)
{
    for (int i = 1; i <= 20; i++)
        batch(START_US + i * SECOND);
    expect(START_US + 80 * SECOND, 0, 10);
    batch(START_US + 78 * SECOND);
    expect(START_US + 80 * SECOND, 1, 10);
}
END_TEST

START_TEST(a_record_of_no_rank_says_nothing)
{
    sums = (struct flight_sums){.next_mark = 0};
    ck_assert(!flight_read_recent(&sums, START_US, recent, &from_us));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("flight_sums");
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, what_a_rank_has_carried_is_added_up);
    tcase_add_test(tcase, a_rank_that_has_just_joined_counts_from_then_on);
    tcase_add_test(tcase, the_time_is_about_as_long_as_asked_for);
    tcase_add_test(tcase, a_pause_counts);
    tcase_add_test(tcase, a_record_of_no_rank_says_nothing);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("flight_sums", fill);
}
