/* test_ps_judge.c: who waits for whom, and what hvdinfo ps says of it, from made-up records. */
#include "unit.h"

#include <string.h>

#include "base/status.h"
#include "tools/hvdinfo/ps/judge.h"
#include "tools/hvdinfo/ps/show.h"
#include "tools/hvdinfo/ps/words.h"

#define NOW_US   INT64_C(1000000000)
#define AGO(us)  (NOW_US - (us))
#define SECOND   INT64_C(1000000)
#define MOST_OPS 8

static struct ranks ranks;

static void teardown(void)
{
    ranks_free(&ranks);
}

/* A rank that runs and has joined a job of [size]. */
static struct rank *add_rank(int number, int size)
{
    struct rank *rank = ranks_add(&ranks);
    ck_assert_ptr_nonnull(rank);
    snprintf(rank->key, sizeof(rank->key), "job");
    rank->rank = number;
    rank->size = size;
    rank->phase = FLIGHT_WORKS;
    rank->phase_us = AGO(100 * SECOND);
    rank->process = 'S';
    rank->waits = true;
    rank->operations = calloc(MOST_OPS, sizeof(*rank->operations));
    ranks.now_us = NOW_US;
    return rank;
}

/* It has submitted an allreduce [ago_us] ago. [agreed]: 0: undecided. */
static struct flight_operation *add_op(struct rank *rank, const char *name, enum trace_step step,
                                       uint32_t agreed, int64_t ago_us)
{
    ck_assert_int_lt(rank->operation_count, MOST_OPS);
    struct flight_operation *operation = &rank->operations[rank->operation_count++];
    *operation = (struct flight_operation){.serial = (uint64_t)rank->operation_count,
                                           .step = step,
                                           .kind = "allreduce",
                                           .agreed = agreed,
                                           .tensors = 1,
                                           .submitted_us = AGO(ago_us)};
    snprintf(operation->name, sizeof(operation->name), "%s", name);
    return operation;
}

static void judge(void)
{
    ck_assert_int_eq(judge_ranks(&ranks, 5 * SECOND), HVD_OK);
}

static void expect(int number, bool stands_still, const char *sentence)
{
    char words[WORDS_BYTES];
    for (int i = 0; i < ranks.count; i++) {
        const struct rank *rank = &ranks.list[i];
        if (rank->rank != number)
            continue;
        ck_assert_str_eq(words_of_rank(rank, NOW_US, words), sentence);
        ck_assert_int_eq(rank->stands_still, stands_still);
        return;
    }
    ck_abort_msg("there is no rank %d", number);
}

START_TEST(a_rank_that_has_not_submitted_keeps_the_others_waiting)
{
    for (int i = 0; i < 3; i++) {
        struct rank *rank = add_rank(i, 3);
        add_op(rank, "y", TRACE_DONE, 1, 9 * SECOND);
        if (i == 1)
            snprintf(rank->sleeps_in, sizeof(rank->sleeps_in), "futex_wait");
        else
            add_op(rank, "x", TRACE_SUBMITTED, 0, 7 * SECOND)->bytes = 24 << 20;
    }
    judge();
    expect(0, true, "in allreduce \"x\" (24 MiB) for 7.0 s, waits for rank 1");
    expect(1, true,
           "has not submitted allreduce \"x\"; last submitted allreduce \"y\", 9.0 s ago; its program sleeps "
           "(futex_wait)");
    expect(2, true, "in allreduce \"x\" (24 MiB) for 7.0 s, waits for rank 1");
}
END_TEST

START_TEST(a_short_wait_is_no_standstill)
{
    add_op(add_rank(0, 2), "x", TRACE_SUBMITTED, 0, 2 * SECOND);
    add_rank(1, 2)->process = 'R';
    judge();
    expect(0, false, "in allreduce \"x\" for 2.0 s, waits for rank 1");
    expect(1, false, "has not submitted allreduce \"x\"; has submitted nothing yet; its program runs");
}
END_TEST

START_TEST(ranks_in_another_order_wait_for_each_other)
{
    add_op(add_rank(0, 2), "a", TRACE_SUBMITTED, 0, 6 * SECOND);
    add_op(add_rank(1, 2), "b", TRACE_SUBMITTED, 0, 6 * SECOND);
    judge();
    expect(0, true, "in allreduce \"a\" for 6.0 s, waits for rank 1; has not submitted allreduce \"b\"");
    expect(1, true, "in allreduce \"b\" for 6.0 s, waits for rank 0; has not submitted allreduce \"a\"");
}
END_TEST

START_TEST(nobody_is_blamed_who_is_past_it_has_joined_or_is_no_member)
{
    struct rank *waiting = add_rank(0, 4);
    add_op(waiting, "x", TRACE_DONE, 4, 2 * SECOND)->set = 1;
    add_op(waiting, "x", TRACE_SUBMITTED, 0, SECOND)->set = 1;
    waiting->sets[0] = 1 << 1;
    struct rank *past = add_rank(1, 4);
    past->sets[0] = 1 << 1;
    add_op(past, "x", TRACE_DONE, 5, SECOND)->set = 1;
    struct rank *joined = add_rank(2, 4);
    struct flight_operation *join = add_op(joined, "", TRACE_SUBMITTED, 0, SECOND);
    snprintf(join->kind, sizeof(join->kind), "join");
    join->set = 1;
    joined->sets[0] = 1 << 1;
    add_op(add_rank(3, 4), "y", TRACE_DONE, 9, SECOND);
    judge();
    expect(0, false, "in allreduce \"x\" in process set 1 for 1.0 s");
    ck_assert_ptr_null(ranks.list[0].waits_for);
    expect(3, false, "computing for 1.0 s since allreduce \"y\"");
}
END_TEST

START_TEST(a_member_of_the_set_that_does_not_come_is_named)
{
    struct rank *waiting = add_rank(0, 3);
    waiting->sets[0] = 1 << 3;
    add_op(waiting, "x", TRACE_SUBMITTED, 0, SECOND)->set = 3;
    add_rank(1, 3)->sets[0] = 1 << 3;
    add_rank(2, 3)->sets[0] = 1 << 2;
    judge();
    expect(0, false, "in allreduce \"x\" in process set 3 for 1.0 s, waits for rank 1");
    ck_assert_int_eq(ranks.list[2].state, RANK_COMPUTES);
}
END_TEST

START_TEST(of_the_sets_beyond_those_in_the_record_its_operations_tell)
{
    struct rank *waiting = add_rank(0, 3);
    add_op(waiting, "y", TRACE_DONE, 1, SECOND)->set = 300;
    add_op(waiting, "x", TRACE_SUBMITTED, 0, SECOND)->set = 300;
    add_op(add_rank(1, 3), "y", TRACE_DONE, 1, SECOND)->set = 300;
    add_rank(2, 3);
    judge();
    expect(0, false, "in allreduce \"x\" in process set 300 for 1.0 s, waits for rank 1");
}
END_TEST

START_TEST(ranks_that_were_not_seen_may_be_the_reason)
{
    add_op(add_rank(0, 3), "x", TRACE_SUBMITTED, 0, SECOND);
    add_op(add_rank(1, 3), "x", TRACE_SUBMITTED, 0, SECOND);
    judge();
    expect(0, false, "in allreduce \"x\" for 1.0 s, waits for a rank that is not listed here");
}
END_TEST

START_TEST(a_stopped_rank_keeps_what_runs_from_moving)
{
    add_op(add_rank(0, 2), "x", TRACE_TRANSFERRING, 3, 6 * SECOND);
    struct rank *stopped = add_rank(1, 2);
    add_op(stopped, "x", TRACE_TRANSFERRING, 3, 6 * SECOND);
    stopped->process = 'T';
    judge();
    expect(0, true, "in allreduce \"x\", which it transfers for 6.0 s, waits for rank 1, which is stopped");
    expect(1, true, "stopped by a signal (SIGSTOP); in allreduce \"x\", which it transfers for 6.0 s");
}
END_TEST

START_TEST(a_rank_that_is_still_in_the_round_before_is_named)
{
    struct rank *rank = add_rank(0, 2);
    add_op(rank, "step", TRACE_DONE, 3, 7 * SECOND);
    add_op(rank, "step", TRACE_SUBMITTED, 0, 6 * SECOND);
    struct rank *behind = add_rank(1, 2);
    add_op(behind, "step", TRACE_TRANSFERRING, 3, 7 * SECOND);
    behind->process = 'T';
    judge();
    expect(0, true, "in allreduce \"step\" for 6.0 s, waits for rank 1, which is stopped");
    expect(1, true, "stopped by a signal (SIGSTOP); in allreduce \"step\", which it transfers for 7.0 s");
}
END_TEST

static struct flight_operation *add_message(struct rank *rank, const char *kind, const char *name)
{
    struct flight_operation *operation = add_op(rank, name, TRACE_SUBMITTED, 0, SECOND);
    snprintf(operation->kind, sizeof(operation->kind), "%s", kind);
    return operation;
}

START_TEST(a_message_waits_for_its_other_end_alone)
{
    add_message(add_rank(0, 4), "recv", "from rank 2 with tag 5");
    add_message(add_rank(1, 4), "recv", "from any rank with tag 5");
    add_rank(2, 4);
    add_message(add_rank(3, 4), "send", "to rank 1 with tag 7")->set = 1;
    judge();
    expect(0, false, "in recv \"from rank 2 with tag 5\" for 1.0 s, waits for rank 2");
    expect(1, false, "in recv \"from any rank with tag 5\" for 1.0 s");
    expect(2, false, "computing for 100 s since hvd_init");
    expect(3, false, "in send \"to rank 1 with tag 7\" in process set 1 for 1.0 s");
}
END_TEST

START_TEST(a_rank_that_has_not_begun_what_runs_is_named)
{
    add_op(add_rank(0, 3), "x", TRACE_TRANSFERRING, 3, SECOND);
    add_op(add_rank(1, 3), "x", TRACE_DECIDED, 3, SECOND);
    add_op(add_rank(2, 3), "x", TRACE_DONE, 3, SECOND);
    judge();
    expect(0, false, "in allreduce \"x\", which it transfers for 1.0 s, waits for rank 1");
    expect(1, false, "in allreduce \"x\", which it queues for 1.0 s");
}
END_TEST

START_TEST(a_rank_that_does_not_wait_computes)
{
    struct rank *rank = add_rank(0, 1);
    rank->waits = false;
    add_op(rank, "x", TRACE_SUBMITTED, 0, SECOND);
    add_op(rank, "y", TRACE_SUBMITTED, 0, SECOND);
    judge();
    expect(0, false, "computing for 100 s, with allreduce \"x\" and 1 other operation in flight");
}
END_TEST

START_TEST(a_start_waits_for_ranks_that_have_not_come)
{
    add_rank(0, 2)->phase = FLIGHT_STARTS;
    struct rank *missing = add_rank(1, 2);
    missing->phase = FLIGHT_NO_PHASE;
    missing->process = 'D';
    judge();
    expect(0, true, "in hvd_init for 100 s, waits for rank 1");
    expect(1, true,
           "has not called hvd_init, 100 s after its start; its program waits for a disk or a file server");
}
END_TEST

START_TEST(an_end_waits_for_ranks_that_go_on)
{
    add_rank(0, 3)->phase = FLIGHT_LEAVES;
    add_rank(1, 3);
    struct rank *gone = add_rank(2, 3);
    gone->phase = FLIGHT_LEAVES;
    gone->left = true;
    judge();
    expect(0, true, "in hvd_shutdown for 100 s, waits for rank 1");
    expect(1, false, "computing for 100 s since hvd_init");
    expect(2, false, "has left the job");
}
END_TEST

START_TEST(spares_and_ends_have_words)
{
    struct rank *spare = add_rank(0, 2);
    spare->phase = FLIGHT_STARTS;
    spare->is_newcomer = true;
    add_rank(1, 2)->process = 'Z';
    judge();
    expect(0, false, "in hvd_init as a spare for 100 s, waits for a place in the next epoch");
    expect(1, true, "has ended, which its parent has not noticed");
}
END_TEST

START_TEST(ranks_of_another_job_or_epoch_are_not_compared)
{
    add_op(add_rank(0, 1), "x", TRACE_SUBMITTED, 0, SECOND);
    struct rank *other = add_rank(1, 1);
    snprintf(other->key, sizeof(other->key), "other");
    add_rank(2, 1)->first = 2;
    add_rank(3, 1)->epoch = 7;
    judge();
    expect(0, false, "in allreduce \"x\" for 1.0 s");
    expect(3, false, "computing for 100 s since hvd_init");
}
END_TEST

START_TEST(of_two_with_one_rank_the_one_in_the_job_counts)
{
    add_rank(0, 1)->phase = FLIGHT_STARTS;
    add_rank(0, 1);
    judge();
    ck_assert_int_eq(ranks.count, 1);
    expect(0, false, "computing for 100 s since hvd_init");
}
END_TEST

START_TEST(times_in_the_future_and_long_lists_do_no_harm)
{
    char words[WORDS_BYTES];
    struct rank *rank = add_rank(0, 1000);
    add_op(rank, "x", TRACE_SUBMITTED, 0, -INT64_MAX / 8)->bytes = INT64_MAX;
    for (int i = 1; i < 1000; i += 2)
        add_rank(i, 1000);
    judge();
    words_of_rank(&ranks.list[0], NOW_US, words);
    ck_assert_msg(strstr(words, " (8 EiB) for 0.00 s, waits for ranks 1,3,") != NULL, "%s", words);
}
END_TEST

/* ---- Many ranks ---------------------------------------------------------------------------------- */

#define MANY 65536

/* Of all lists of ranks that are awaited. */
static int count_runs(void)
{
    int count = 0;
    for (const struct awaited_list *list = ranks.awaited; list != NULL; list = list->next)
        count += list->run_count;
    return count;
}

START_TEST(one_of_many_ranks_is_named_once)
{
    for (int i = 0; i < MANY; i++) {
        struct rank *rank = add_rank(i, MANY);
        if (i != 40000)
            add_op(rank, "x", TRACE_SUBMITTED, 0, (i == 50000 ? 8 : 7) * SECOND);
    }
    judge();
    ck_assert_int_eq(count_runs(), 1);
    for (int i = 0; i < MANY; i++)
        ck_assert_ptr_eq(ranks.list[i].waits_for, i == 40000 ? NULL : ranks.awaited);
    expect(0, true, "in allreduce \"x\" for 7.0 s, waits for rank 40000");
    ck_assert_ptr_eq(ranks.list[40000].missed, ranks.list[50000].pending);
    ck_assert_int_eq(ranks.list[40000].state, RANK_LATE);
}
END_TEST

/* The last one waits for all others that are stopped. */
START_TEST(many_ranks_in_one_operation_share_what_they_wait_for)
{
    for (int i = 0; i < MANY; i++) {
        struct rank *rank = add_rank(i, MANY);
        add_op(rank, "x", TRACE_TRANSFERRING, 1, SECOND);
        rank->process = _i == 0 || i == MANY - 1 ? 'S' : 'T';
    }
    judge();
    ck_assert_int_eq(count_runs(), _i);
    for (int i = 0; i < MANY; i++)
        ck_assert_ptr_eq(ranks.list[i].waits_for, i == MANY - 1 ? ranks.awaited : NULL);
    ck_assert_int_eq(_i == 0 ? MANY - 1 : ranks.awaited->count, MANY - 1);
}
END_TEST

/* Returns what follows [key] in the JSON. */
static const char *member_of_json(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    ck_assert_msg(at != NULL, "no %s in %.1000s", key, text);
    return at + strlen(key);
}

/* A list for each rank would grow with the square of their number. The odd ranks are in another operation
 * than the even ones. */
START_TEST(a_list_of_many_ranks_is_in_json_once)
{
    char *text = NULL;
    size_t bytes = 0;
    for (int i = 0; i < MANY; i++)
        add_op(add_rank(i, MANY), i % 2 == 0 ? "x" : "y", TRACE_SUBMITTED, 0, SECOND);
    judge();
    FILE *to = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(to);
    ck_assert_int_eq(show_json(to, &ranks), HVD_OK);
    ck_assert_int_eq(fclose(to), 0);
    ck_assert_uint_lt(bytes, 2 * MANY * strlen("65534,") + MANY * 2000UL);
    const char *lists = member_of_json(text, "{\"version\":2,\"awaited\":[\"0,2,4,");
    member_of_json(lists, ",65534\",\"1,3,5,");
    for (int i = 0; i < 2; i++) {
        char key[64];
        snprintf(key, sizeof(key), "\"rank\":%d,", i);
        const char *own = member_of_json(member_of_json(text, key), "\"waits_for\":");
        ck_assert_int_eq(own[0], i == 0 ? '1' : '0');
    }
    free(text);
}
END_TEST

START_TEST(many_ranks_in_different_operations_have_short_lists)
{
    char name[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "x%d", i);
        add_op(add_rank(i, MANY), name, TRACE_SUBMITTED, 0, i == 7 ? 9 * SECOND : 8 * SECOND);
    }
    judge();
    ck_assert_int_le(count_runs(), 2 * MANY);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(ranks.list[i].waits_for->count, MANY - 1);
        ck_assert_ptr_eq(ranks.list[i].missed, ranks.list[i == 7 ? 0 : 7].pending);
    }
    expect(0, true,
           "in allreduce \"x0\" for 8.0 s, waits for ranks 1-65535; has not submitted allreduce \"x7\"");
    expect(9, true,
           "in allreduce \"x9\" for 8.0 s, waits for ranks 0-8,10-65535; has not submitted allreduce \"x7\"");
}
END_TEST

/* What hvdinfo ps prints of the ranks, without the heads of their jobs. The caller frees *text. */
static char *shown(char **text)
{
    struct show_view view = {.selected = -1};
    size_t bytes = 0;
    FILE *to = open_memstream(text, &bytes);
    ck_assert_ptr_nonnull(to);
    ck_assert_int_eq(show_text(to, &ranks, &view), HVD_OK);
    ck_assert_int_eq(fclose(to), 0);
    char *lines = strstr(*text, "\n  rank");
    ck_assert_ptr_nonnull(lines);
    return lines + 1;
}

START_TEST(ranks_that_do_the_same_have_the_line_of_the_first_one)
{
    static const char *const names[] = {"b", "a", "b", "c", "a"};
    char *text = NULL;
    for (int i = 0; i < 5; i++) {
        struct rank *rank = add_rank(i, 5);
        rank->waits = false;
        rank->phase_us = AGO(10 * SECOND + i * SECOND);
        add_op(rank, names[i], TRACE_SUBMITTED, 0, SECOND);
    }
    judge();
    ck_assert_str_eq(shown(&text),
                     "  ranks 0,2 (2): computing for 12.0 s, with allreduce \"b\" in flight\n"
                     "  ranks 1,4 (2): computing for 14.0 s, with allreduce \"a\" in flight\n"
                     "  rank 3 (pid unknown, cores unknown): computing for 13.0 s, with allreduce "
                     "\"c\" in flight\n");
    free(text);
}
END_TEST

/* Where each was compared with each, that took hours. */
START_TEST(many_different_lines_are_shown)
{
    char name[32];
    char *text = NULL;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "x%d", i);
        add_op(add_rank(i, MANY), name, TRACE_SUBMITTED, 0, SECOND);
    }
    judge();
    char *line = shown(&text);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "  rank %d (", i);
        ck_assert_int_eq(strncmp(line, name, strlen(name)), 0);
        line = strchr(line, '\n') + 1;
    }
    ck_assert_str_eq(line, "");
    free(text);
}
END_TEST

START_TEST(ranks_that_are_stopped_in_what_runs_share_a_line)
{
    char *text = NULL;
    for (int i = 0; i < 6; i++) {
        struct rank *rank = add_rank(i, 6);
        add_op(rank, "x", TRACE_TRANSFERRING, 3, 6 * SECOND);
        rank->process = i < 2 ? 'S' : 'T';
    }
    judge();
    ck_assert_str_eq(
        shown(&text),
        "  ranks 0,1 (2): in allreduce \"x\", which it transfers for 6.0 s, waits for ranks 2-5\n"
        "  ranks 2-5 (4): stopped by a signal (SIGSTOP); in allreduce \"x\", which it transfers for 6.0 s\n");
    free(text);
}
END_TEST

START_TEST(a_message_to_itself_waits_for_nobody)
{
    for (int i = 0; i < 3; i++)
        add_message(add_rank(i, 3), "recv", "from rank 1 with tag 5");
    judge();
    expect(0, false, "in recv \"from rank 1 with tag 5\" for 1.0 s, waits for rank 1");
    expect(1, false, "in recv \"from rank 1 with tag 5\" for 1.0 s");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("ps_judge");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, a_rank_that_has_not_submitted_keeps_the_others_waiting);
    tcase_add_test(tcase, a_short_wait_is_no_standstill);
    tcase_add_test(tcase, ranks_in_another_order_wait_for_each_other);
    tcase_add_test(tcase, nobody_is_blamed_who_is_past_it_has_joined_or_is_no_member);
    tcase_add_test(tcase, a_member_of_the_set_that_does_not_come_is_named);
    tcase_add_test(tcase, of_the_sets_beyond_those_in_the_record_its_operations_tell);
    tcase_add_test(tcase, ranks_that_were_not_seen_may_be_the_reason);
    tcase_add_test(tcase, a_stopped_rank_keeps_what_runs_from_moving);
    tcase_add_test(tcase, a_rank_that_is_still_in_the_round_before_is_named);
    tcase_add_test(tcase, a_message_waits_for_its_other_end_alone);
    tcase_add_test(tcase, a_rank_that_has_not_begun_what_runs_is_named);
    tcase_add_test(tcase, a_rank_that_does_not_wait_computes);
    tcase_add_test(tcase, a_start_waits_for_ranks_that_have_not_come);
    tcase_add_test(tcase, an_end_waits_for_ranks_that_go_on);
    tcase_add_test(tcase, spares_and_ends_have_words);
    tcase_add_test(tcase, ranks_of_another_job_or_epoch_are_not_compared);
    tcase_add_test(tcase, of_two_with_one_rank_the_one_in_the_job_counts);
    tcase_add_test(tcase, times_in_the_future_and_long_lists_do_no_harm);
    tcase_add_test(tcase, ranks_that_are_stopped_in_what_runs_share_a_line);
    tcase_add_test(tcase, a_message_to_itself_waits_for_nobody);
    tcase_add_test(tcase, ranks_that_do_the_same_have_the_line_of_the_first_one);
    suite_add_tcase(suite, tcase);
    TCase *many = tcase_create("many ranks");
    tcase_add_checked_fixture(many, NULL, teardown);
    tcase_set_timeout(many, 60);
    tcase_add_test(many, one_of_many_ranks_is_named_once);
    tcase_add_loop_test(many, many_ranks_in_one_operation_share_what_they_wait_for, 0, 2);
    tcase_add_test(many, many_ranks_in_different_operations_have_short_lists);
    tcase_add_test(many, a_list_of_many_ranks_is_in_json_once);
    tcase_add_test(many, many_different_lines_are_shown);
    suite_add_tcase(suite, many);
}

int main(void)
{
    return unit_run("ps_judge", fill);
}
