/* test_stragglers.c: which rank was last, how often, and how long the others waited for it. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "tools/hvdinfo/stragglers.h"

static struct stragglers *stragglers;
static struct stragglers_sum sum;

static void setup(void)
{
    stragglers = stragglers_create();
    ck_assert_ptr_nonnull(stragglers);
}

static void teardown(void)
{
    stragglers_destroy(stragglers);
}

static void arrive(int rank, int set, int64_t number, const char *name, int64_t at_us)
{
    struct arrival arrival = {rank, set, number, "allreduce", name, at_us};
    ck_assert_int_eq(stragglers_add(stragglers, &arrival), 0);
}

/* Each case is one operation of three ranks, in any order. */
static const struct {
    int64_t at_us[3];
    int last;
    double behind_us, waited_us;
} rounds[] = {{{10, 20, 50}, 2, 30, 70}, {{50, 10, 20}, 0, 30, 70}, {{10, 50, 20}, 1, 30, 70},
              {{-5, -9, -7}, 0, 2, 6},   {{10, 30, 10}, 1, 20, 40}, {{10, 10, 11}, 2, 1, 2},
              {{10, 30, 30}, -1, 0, 0}};

START_TEST(the_last_one_is_found)
{
    for (int rank = 0; rank < 3; rank++)
        arrive(rank, 0, 1, "a", rounds[_i].at_us[rank]);
    ck_assert_int_eq(stragglers_sum(stragglers, &sum), 0);
    ck_assert_int_eq(sum.operations, 1);
    ck_assert_int_eq(sum.compared, 1);
    if (rounds[_i].last < 0) {
        ck_assert_int_eq(sum.rank_count, 0);
        return;
    }
    ck_assert_int_eq(sum.rank_count, 1);
    ck_assert_int_eq(sum.ranks[0].rank, rounds[_i].last);
    ck_assert_int_eq(sum.ranks[0].times, 1);
    ck_assert(sum.ranks[0].behind_us == rounds[_i].behind_us);
    ck_assert(sum.ranks[0].waited_us == rounds[_i].waited_us);
}
END_TEST

START_TEST(the_worst_come_first)
{
    for (int64_t number = 1; number <= 10; number++) {
        arrive(0, 0, number, number % 2 == 0 ? "even" : "odd", 100 * number);
        arrive(0, 3, number, "even", 100 * number + 5);
    }
    for (int64_t number = 1; number <= 10; number++) {
        arrive(1, 0, number, number % 2 == 0 ? "even" : "odd", 100 * number + (number % 2 == 0 ? 40 : 3));
        arrive(1, 3, number, "even", 100 * number);
    }
    ck_assert_int_eq(stragglers_sum(stragglers, &sum), 0);
    ck_assert_int_eq(sum.compared, 20);
    ck_assert_int_eq(sum.rank_count, 2);
    ck_assert_int_eq(sum.ranks[0].rank, 1);
    ck_assert_int_eq(sum.ranks[0].times, 10);
    ck_assert(sum.ranks[0].behind_us == 5 * 40 + 5 * 3);
    ck_assert_int_eq(sum.ranks[1].rank, 0);
    ck_assert(sum.ranks[1].waited_us == 10 * 5);
    ck_assert_int_eq(sum.subject_count, 3);
    ck_assert_str_eq(sum.subjects[0].name, "even");
    ck_assert_int_eq(sum.subjects[0].set, 0);
    ck_assert_int_eq(sum.subjects[0].times, 5);
    ck_assert_int_eq(sum.subjects[1].set, 3);
    ck_assert_int_eq(sum.subjects[1].rank, 0);
    ck_assert_str_eq(sum.subjects[2].name, "odd");
}
END_TEST

START_TEST(what_one_rank_submitted_is_not_compared)
{
    arrive(0, 0, 1, "a", 10);
    arrive(0, 0, 1, "a", 20); /* a second time: ignored */
    arrive(1, 0, 2, "a", 30);
    ck_assert_int_eq(stragglers_sum(stragglers, &sum), 0);
    ck_assert_int_eq(sum.operations, 2);
    ck_assert_int_eq(sum.compared, 0);
    ck_assert_int_eq(sum.rank_count, 0);
    ck_assert_int_eq(sum.subject_count, 0);
}
END_TEST

START_TEST(nothing_is_fine)
{
    ck_assert_int_eq(stragglers_sum(stragglers, &sum), 0);
    ck_assert_int_eq(sum.operations, 0);
    ck_assert_int_eq(sum.rank_count, 0);
}
END_TEST

START_TEST(many_operations_are_kept_apart)
{
    char name[16];
    for (int rank = 0; rank < 4; rank++) {
        for (int number = 1; number <= 2000; number++) {
            snprintf(name, sizeof(name), "t%d", number % 100);
            arrive(rank, 0, number, name, number * 10 + (rank == number % 4 ? 5 : 0));
        }
    }
    ck_assert_int_eq(stragglers_sum(stragglers, &sum), 0);
    ck_assert_int_eq(sum.compared, 2000);
    ck_assert_int_eq(sum.rank_count, 4);
    ck_assert_int_eq(sum.subject_count, 100);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(sum.ranks[i].rank, i); /* equal ranks are in ascending order */
        ck_assert_int_eq(sum.ranks[i].times, 500);
        ck_assert(sum.ranks[i].waited_us == 500 * 15);
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("stragglers");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, the_last_one_is_found, 0, sizeof(rounds) / sizeof(rounds[0]));
    tcase_add_test(tcase, the_worst_come_first);
    tcase_add_test(tcase, what_one_rank_submitted_is_not_compared);
    tcase_add_test(tcase, nothing_is_fine);
    tcase_add_test(tcase, many_operations_are_kept_apart);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("stragglers", fill);
}
