/* test_stall_query.c: what waits too long is told of once, with those that are missing: simulated ranks and
 * time.
 */
#include "unit.h"

#include "negotiate/wire.h"
#include "negotiation_sim.h"

#define SECOND INT64_C(1000000)
#define WARN   (60 * SECOND)
#define ABORT  (600 * SECOND)

static const struct negotiate_params watching = {
    .stall_warn_us = WARN, .stall_abort_us = ABORT, .hang_limit_us = ABORT};

static struct sim_job sim; /* of the test that runs */

/* A job of 24 ranks on 6 nodes. */
static void begin_six_nodes(const struct negotiate_params *like)
{
    begin_like(&sim, 24, 4, like);
}

static void tear_down(void)
{
    if (sim.size > 0)
        end(&sim);
}

static int64_t deadline_of_all(int64_t now_us)
{
    int64_t deadline_us = INT64_MAX;
    for (int rank = 0; rank < sim.size; rank++) {
        int64_t due_us = negotiate_deadline(sim.players[rank].negotiate, now_us);
        deadline_us = due_us < deadline_us ? due_us : deadline_us;
    }
    return deadline_us;
}

/* All ranks look after what waits, have turns until nothing happens, and go to sleep. */
static void watch(int64_t now_us)
{
    for (int rank = 0; rank < sim.size; rank++) {
        struct hvd_error err = {""};
        if (sim.players[rank].stopped)
            continue;
        int rc = negotiate_check_stalls(sim.players[rank].negotiate, now_us, &err);
        ck_assert_msg(rc == HVD_OK, "%s", err.text);
    }
    run_until_idle(&sim);
    deadline_of_all(now_us);
}

/* All ranks but those in [first, last] submit the operation of that name. */
static void submit_but(int name, int first, int last)
{
    struct desc *desc = describe(name, 4);
    for (int rank = 0; rank < sim.size; rank++) {
        if (rank < first || rank > last)
            submit(&sim, rank, desc);
    }
    desc_release(desc);
    run_until_idle(&sim);
}

static int stalls_told(void)
{
    int told = 0;
    for (int rank = 0; rank < sim.size; rank++)
        told += sim.players[rank].stalls;
    return told;
}

static void expect_told(int count)
{
    ck_assert_int_eq(stalls_told(), count);
}

START_TEST(nothing_wakes_a_job_in_which_nothing_waits)
{
    begin_six_nodes(&watching);
    ck_assert_int_eq(deadline_of_all(5), INT64_MAX);
    for (int round = 0; round < 2; round++) {
        submit_all(&sim, describe(1, 4));
        run_until_idle(&sim);
        ck_assert_int_eq(deadline_of_all(7), INT64_MAX);
    }
}
END_TEST

/* Rank 5 is a leaf, 8 and 16 lead nodes, 0 is the root. */
START_TEST(a_missing_rank_is_named_with_what_it_submitted_last)
{
    static const int culprits[] = {5, 8, 16, 0, 23};
    int culprit = culprits[_i];
    char expected[128];
    begin_six_nodes(&watching);
    submit_all(&sim, describe(1, 4));
    run_until_idle(&sim);
    submit_but(2, culprit, culprit);
    submit_but(3, culprit, culprit);
    watch(SECOND);
    ck_assert_int_eq(deadline_of_all(SECOND), SECOND + WARN);
    watch(WARN);
    expect_told(0);
    watch(SECOND + WARN);
    snprintf(expected, sizeof(expected),
             "allreduce \"t2\" waits 60 s for 1: %d (allreduce \"t1\"); 1 others wait", culprit);
    ck_assert_str_eq(sim.players[0].stall, expected);
    expect_told(1);
    /* again, but not before its time */
    watch(SECOND + WARN + WARN / 2);
    expect_told(1);
    watch(3 * SECOND + 2 * WARN);
    expect_told(2);
    /* then after twice as long */
    watch(4 * SECOND + 3 * WARN);
    expect_told(2);
    watch(5 * SECOND + 4 * WARN);
    expect_told(3);
    /* and no more when it has come */
    for (int name = 2; name <= 3; name++) {
        struct desc *desc = describe(name, 4);
        submit(&sim, culprit, desc);
        desc_release(desc);
    }
    run_until_idle(&sim);
    watch(9 * WARN);
    expect_told(3);
    ck_assert_int_eq(deadline_of_all(9 * WARN), INT64_MAX);
}
END_TEST

START_TEST(a_rank_that_was_stopped_itself_times_anew)
{
    begin_six_nodes(&watching);
    submit_but(2, 5, 5);
    watch(1);
    for (int rank = 0; rank < 24; rank++)
        negotiate_restart_times(sim.players[rank].negotiate);
    watch(1 + WARN);
    watch(2 * WARN);
    expect_told(0);
    watch(1 + 2 * WARN);
    expect_told(1);
}
END_TEST

/* Only one rank has submitted it, far from the root. */
START_TEST(a_lone_submission_is_told_of_where_it_is_decided)
{
    struct desc *desc = describe(7, 4);
    begin_six_nodes(&watching);
    submit(&sim, 23, desc);
    run_until_idle(&sim);
    watch(1);
    watch(1 + WARN);
    expect_told(1);
    ck_assert_ptr_eq(
        strstr(sim.players[0].stall, "allreduce \"t7\" waits 60 s for 23: 0 (nothing) 1 (nothing)"),
        sim.players[0].stall);
    ck_assert_ptr_nonnull(strstr(sim.players[0].stall, " 15 (nothing)"));
    ck_assert_ptr_null(strstr(sim.players[0].stall, " 16 (nothing)")); /* the 17th is counted only */
    desc_release(desc);
}
END_TEST

/* The leader of the missing rank's node finds out first; the root, where it waits as well, has its own time.
 */
START_TEST(who_decides_tells_in_its_own_time)
{
    begin_six_nodes(&watching);
    submit_but(2, 9, 9);
    negotiate_deadline(sim.players[8].negotiate, 1);
    negotiate_deadline(sim.players[0].negotiate, SECOND);
    watch(1 + WARN);
    expect_told(0);
    watch(SECOND + WARN);
    expect_told(1);
}
END_TEST

START_TEST(two_that_wait_for_others_are_not_told_of_at_once)
{
    begin_six_nodes(&watching);
    for (int name = 7; name <= 8; name++) {
        struct desc *desc = describe(name, 4);
        submit(&sim, name == 7 ? 23 : 13, desc);
        desc_release(desc);
    }
    run_until_idle(&sim);
    watch(1);
    ck_assert_int_eq(negotiate_check_stalls(sim.players[20].negotiate, 1 + WARN, NULL), HVD_OK);
    run_until_idle(&sim);
    expect_told(1);
    watch(1 + WARN);
    expect_told(1);
    watch(1 + 2 * WARN);
    expect_told(2);
}
END_TEST

START_TEST(a_rank_that_does_not_answer_is_told_of_after_a_second)
{
    begin_six_nodes(&watching);
    submit_but(2, 9, 10);
    sim.players[9].stopped = true;
    watch(1);
    watch(1 + WARN);
    expect_told(0);
    int64_t due_us = deadline_of_all(1 + WARN);
    ck_assert_int_gt(due_us, 1 + WARN);
    ck_assert_int_le(due_us, 1 + WARN + SECOND);
    watch(due_us);
    ck_assert_str_eq(sim.players[0].stall, "allreduce \"t2\" waits 60 s for 2: 9 (silent) 10 (nothing)");
    expect_told(1);
}
END_TEST

/* The leader of a node with ranks below it is silent: nobody is there to ask them. */
START_TEST(a_silent_leader_is_told_of_after_a_second)
{
    begin_six_nodes(&watching);
    submit_but(2, 9, 10);
    watch(1);
    sim.players[8].stopped = true;
    watch(1 + WARN);
    watch(1 + WARN + SECOND);
    ck_assert_str_eq(sim.players[0].stall, "allreduce \"t2\" waits 60 s for 1: 8 (silent)");
    expect_told(1);
}
END_TEST

START_TEST(what_is_decided_before_the_answers_come_is_not_told_of)
{
    struct desc *desc = describe(2, 4);
    begin_six_nodes(&watching);
    submit_but(2, 9, 9);
    watch(1);
    ck_assert_int_eq(negotiate_check_stalls(sim.players[0].negotiate, 1 + WARN, NULL), HVD_OK);
    step_rank(&sim.players[0]);
    step_rank(&sim.players[8]);
    submit(&sim, 9, desc);
    run_until_idle(&sim);
    ck_assert_int_eq(sim.players[0].decided, 1);
    expect_told(0);
    watch(10 * WARN);
    expect_told(0);
    desc_release(desc);
}
END_TEST

START_TEST(what_waits_for_the_longer_time_is_hopeless)
{
    begin_six_nodes(&watching);
    submit_but(2, 9, 9);
    watch(1);
    for (int64_t now_us = 1 + WARN; now_us < ABORT; now_us += WARN) {
        watch(now_us);
        ck_assert_ptr_null(strstr(sim.players[0].stall, "in vain"));
    }
    watch(1 + ABORT);
    ck_assert_str_eq(sim.players[0].stall, "allreduce \"t2\" waits 600 s in vain for 1: 9 (nothing)");
    /* which is said once */
    int told = stalls_told();
    ck_assert_int_gt(deadline_of_all(1 + ABORT), 1 + ABORT);
    watch(2 + ABORT);
    expect_told(told);
}
END_TEST

/* Neither or one of the times is given; the lone submission is far from the root. */
START_TEST(either_time_can_be_never)
{
    static const struct negotiate_params never = {.stall_warn_us = 0};
    static const struct negotiate_params end_only = {.stall_abort_us = ABORT, .hang_limit_us = ABORT};
    static const struct negotiate_params warn_only = {.stall_warn_us = WARN};
    const struct negotiate_params *like = _i == 0 ? &never : _i == 1 ? &end_only : &warn_only;
    struct desc *desc = describe(7, 4);
    begin_six_nodes(like);
    submit(&sim, 23, desc);
    run_until_idle(&sim);
    watch(1);
    watch(1 + WARN);
    expect_told(_i == 2);
    watch(1 + ABORT);
    expect_told(_i);
    ck_assert_int_eq(strstr(sim.players[0].stall, "in vain") != NULL, _i == 1);
    desc_release(desc);
}
END_TEST

/* A rank that answers may take all its time; one that does not ends the job. */
START_TEST(only_a_rank_that_does_not_answer_ends_the_job)
{
    static const struct negotiate_params quiet = {.hang_limit_us = ABORT};
    static const struct negotiate_params telling = {.stall_warn_us = WARN, .hang_limit_us = ABORT};
    bool silent = _i % 2 == 1;
    begin_six_nodes(_i < 2 ? &quiet : &telling);
    submit_but(2, 9, 9);
    sim.players[9].stopped = silent;
    for (int64_t now_us = 1; now_us < 3 * ABORT; now_us += WARN / 4)
        watch(now_us);
    ck_assert_int_eq(strstr(sim.players[0].stall, "in vain") != NULL, silent);
    ck_assert_int_eq(stalls_told() > 0, silent || _i >= 2);
}
END_TEST

/* It is asked for again and again. */
START_TEST(a_rank_may_stop_to_answer_later)
{
    static const struct negotiate_params quiet = {.hang_limit_us = ABORT};
    begin_six_nodes(&quiet);
    submit_but(2, 9, 9);
    for (int64_t now_us = 1; now_us < 3 * ABORT; now_us += WARN / 4) {
        sim.players[9].stopped = now_us > ABORT + WARN;
        watch(now_us);
        if (now_us < 2 * ABORT)
            expect_told(0);
    }
    ck_assert_ptr_nonnull(strstr(sim.players[0].stall, "in vain"));
}
END_TEST

START_TEST(a_set_asks_its_own_ranks_only)
{
    begin_like(&sim, 40, 4, &watching);
    hvd_set set = make_set(&sim, 12, 15);
    struct desc *desc = describe(1, 8);
    uint64_t at_root = messages_of(&sim, 0);
    desc->set = set;
    submit(&sim, 13, desc);
    submit(&sim, 12, desc);
    run_until_idle(&sim);
    watch(1);
    watch(1 + WARN);
    ck_assert_str_eq(sim.players[12].stall,
                     "allreduce \"t1\" in process set 1 waits 60 s for 2: 14 (hvd_set_add of "
                     "ranks some) 15 (hvd_set_add of ranks some)");
    expect_told(1);
    ck_assert_uint_eq(messages_of(&sim, 0), at_root);
    desc_release(desc);
}
END_TEST

/* Ranks that have joined are not missing, nor is the end of a job told of that some leave later. */
START_TEST(who_has_joined_or_left_is_not_missing)
{
    struct desc *join = desc_own(DESC_JOIN, HVD_ALL_RANKS, DESC_JOIN_NAME);
    struct submission submission = {.desc = join};
    begin_like(&sim, 12, 4, &watching);
    for (int rank = 0; rank < 8; rank++)
        ck_assert_int_eq(negotiate_submit(sim.players[rank].negotiate, &submission, NULL), HVD_OK);
    run_until_idle(&sim);
    watch(1);
    watch(1 + WARN);
    expect_told(0);
    submit_but(1, 0, 10);
    watch(WARN);
    watch(2 * WARN);
    ck_assert_str_eq(sim.players[0].stall,
                     "allreduce \"t1\" waits 60 s for 3: 8 (nothing) 9 (nothing) 10 (nothing)");
    for (int rank = 0; rank < 11; rank++)
        shut_down(&sim, rank);
    run_until_idle(&sim);
    watch(9 * WARN);
    watch(20 * WARN);
    expect_told(1);
    /* but a rank that was stopped is told of, and the job ends */
    sim.players[11].stopped = true;
    for (int64_t now_us = 20 * WARN; now_us < 30 * WARN; now_us += SECOND / 16)
        watch(now_us);
    ck_assert_ptr_nonnull(strstr(sim.players[0].stall, " s in vain for 1: 11 (silent)"));
    ck_assert_ptr_eq(strstr(sim.players[0].stall, "hvd_shutdown waits "), sim.players[0].stall);
    expect_told(sim.players[0].stalls);
    desc_release(join);
}
END_TEST

/* A rank that never answers never leaves. The root is missed by its children, and as long as it answers it
 * may take its time. */
START_TEST(a_silent_rank_ends_a_shutdown)
{
    int silent = (int[]){0, 3, 8, 16}[_i];
    const struct negotiate_params hangs = {.stall_warn_us = WARN, .hang_limit_us = ABORT};
    begin_six_nodes(&hangs);
    for (int rank = 0; rank < 24; rank++) {
        if (rank != silent)
            shut_down(&sim, rank);
    }
    run_until_idle(&sim);
    for (int64_t now_us = 1; now_us < 2 * ABORT; now_us += SECOND / 2)
        watch(now_us);
    ck_assert_int_eq(sim.players[silent == 0 ? 1 : 0].stalls, 0);
    sim.players[silent].stopped = true;
    char expected[64];
    snprintf(expected, sizeof(expected), " in vain for 1: %d (silent)", silent);
    for (int64_t now_us = 2 * ABORT; now_us < 3 * ABORT + 4 * SECOND; now_us += SECOND / 16)
        watch(now_us);
    const char *told = sim.players[silent == 0 ? 1 : 0].stall;
    ck_assert_msg(strstr(told, "hvd_shutdown waits ") == told && strstr(told, expected) != NULL, "%s", told);
}
END_TEST

/* Ranks may have more data than others, but one that stands still never joins. */
START_TEST(a_join_waits_for_ranks_that_answer_and_names_a_silent_one)
{
    struct desc *join = desc_own(DESC_JOIN, HVD_ALL_RANKS, DESC_JOIN_NAME);
    begin_like(&sim, 12, 4, &watching);
    for (int rank = 0; rank < 11; rank++)
        submit(&sim, rank, join);
    run_until_idle(&sim);
    watch(1);
    watch(1 + WARN);
    expect_told(0);
    sim.players[11].stopped = true;
    for (int64_t now_us = 1 + WARN; now_us < 3 * WARN; now_us += SECOND / 16)
        watch(now_us);
    expect_told(1);
    ck_assert_ptr_nonnull(strstr(sim.players[0].stall, " s for 1: 11 (silent)"));
    desc_release(join);
}
END_TEST

/* Everybody waits for somebody, in all nodes: still one telling, in few messages. */
START_TEST(many_who_wait_tell_of_it_together)
{
    begin_like(&sim, 512, 8, &watching);
    struct desc *desc = describe(1, 4);
    for (int rank = 0; rank < 512; rank += 2)
        submit(&sim, rank, desc);
    run_until_idle(&sim);
    watch(1);
    uint64_t at_root = messages_of(&sim, 0);
    watch(1 + WARN);
    expect_told(1);
    ck_assert_ptr_eq(
        strstr(sim.players[0].stall, "allreduce \"t1\" waits 60 s for 256: 1 (nothing) 3 (nothing)"),
        sim.players[0].stall);
    /* a word of each child at the most, and an answer */
    ck_assert_uint_le(messages_of(&sim, 0) - at_root, 2 * (unsigned)sim.players[0].control->child_count);
    desc_release(desc);
}
END_TEST

/* ---- Batches that run ---- */

#define BATCH 7

static enum stall_standing standings[24];
static int answered; /* how often a rank was asked */

static enum stall_standing stands(void *arg, hvd_set set, uint64_t batch, struct stall_rank *self)
{
    ck_assert_ptr_eq(arg, standings);
    ck_assert_int_eq(set, HVD_ALL_RANKS);
    ck_assert_uint_eq(batch, BATCH);
    answered++;
    if (standings[self->rank] == STANDING_KEEPS_OTHERS) {
        self->state = STALL_BEHIND;
        self->waits_for = 2;
        snprintf(self->last, sizeof(self->last), "t%d", self->rank);
    }
    return standings[self->rank];
}

static const struct negotiate_params running = {.stall_warn_us = WARN,
                                                .stall_abort_us = ABORT,
                                                .hang_limit_us = ABORT,
                                                .standing = stands,
                                                .standing_arg = standings};

static void begin_batch(void)
{
    begin_six_nodes(&running);
    for (int rank = 0; rank < 24; rank++)
        standings[rank] = STANDING_WAITS;
    answered = 0;
}

/* [rank] reports the batch, which has not moved since time 0. */
static void report(int rank, int waits_for, int64_t now_us)
{
    struct desc *desc = describe(2, 4);
    const struct stalled_batch stalled = {desc, BATCH, waits_for, now_us};
    ck_assert_int_eq(negotiate_report_stall(sim.players[rank].negotiate, &stalled, NULL), HVD_OK);
    desc_release(desc);
    watch(now_us);
}

/* The ranks that keep it waiting are others than the last time: that is told at once. */
START_TEST(other_missing_ranks_are_told_at_once)
{
    begin_six_nodes(&watching);
    submit_all(&sim, describe(1, 4));
    run_until_idle(&sim);
    submit_but(2, 5, 8);
    watch(SECOND);
    for (int i = 1; i <= 2; i++)
        watch(i * SECOND + i * WARN);
    expect_told(2);
    struct desc *desc = describe(2, 4);
    submit(&sim, 8, desc);
    desc_release(desc);
    run_until_idle(&sim);
    watch(3 * SECOND + 3 * WARN);
    expect_told(3);
    ck_assert_str_eq(
        sim.players[0].stall,
        "allreduce \"t2\" waits 182 s for 3: 5 (allreduce \"t1\") 6 (allreduce \"t1\") 7 (allreduce \"t1\")");
    watch(4 * SECOND + 4 * WARN);
    expect_told(3);
}
END_TEST

/* The next step waits for the same operation again. */
START_TEST(a_new_wait_is_told_at_its_first_time)
{
    begin_six_nodes(&watching);
    for (int step = 0; step < 2; step++) {
        struct desc *desc = describe(1, 4);
        submit_but(1, 5, 5);
        watch(1 + 10 * step * WARN);
        watch(SECOND + (10 * step + 1) * WARN);
        expect_told(step + 1);
        submit(&sim, 5, desc);
        desc_release(desc);
        run_until_idle(&sim);
    }
}
END_TEST

/* All that wait in it report it, and one is told of. */
START_TEST(a_rank_that_stopped_in_a_batch_is_named_once)
{
    static const int culprits[] = {5, 8, 16, 23};
    char expected[128];
    begin_batch();
    sim.players[culprits[_i]].stopped = true;
    for (int rank = 23; rank >= 0; rank--) {
        if (rank != culprits[_i])
            report(rank, (rank + 23) % 24, WARN);
    }
    expect_told(0);
    watch(deadline_of_all(WARN)); /* a leader's answers are due before the root's */
    watch(WARN + SECOND);
    snprintf(expected, sizeof(expected), "allreduce \"t2\" waits 60 s for 1: %d (silent)", culprits[_i]);
    ck_assert_str_eq(sim.players[0].stall, expected);
    expect_told(1);
    /* again, but not before its time */
    report(1, 0, WARN + WARN / 2);
    watch(2 * WARN);
    expect_told(1);
    watch(3 * WARN);
    report(1, 0, 3 * WARN);
    watch(deadline_of_all(3 * WARN));
    watch(3 * WARN + SECOND);
    expect_told(2);
}
END_TEST

START_TEST(a_batch_in_which_somebody_moves_is_slow)
{
    begin_batch();
    standings[13] = STANDING_MOVES;
    report(1, 0, WARN);
    watch(WARN + SECOND);
    ck_assert_int_eq(answered, 24);
    expect_told(0);
}
END_TEST

START_TEST(a_rank_that_is_not_there_yet_is_named_with_what_it_does)
{
    begin_batch();
    standings[13] = STANDING_KEEPS_OTHERS;
    standings[14] = STANDING_PAST;
    report(1, 0, WARN);
    ck_assert_str_eq(sim.players[0].stall, "allreduce \"t2\" waits 60 s for 1: 13 (t13)");
    expect_told(1);
}
END_TEST

/* One that was continued just now answers that it waits, and moves then: all are asked twice. */
START_TEST(a_batch_in_which_all_wait_is_told_of_with_who_reported_it)
{
    begin_batch();
    report(13, 12, WARN);
    ck_assert_int_eq(answered, 48);
    ck_assert_str_eq(sim.players[0].stall, "allreduce \"t2\" waits 60 s for 0: 13 waits for 12");
    expect_told(1);
}
END_TEST

START_TEST(a_batch_that_is_over_when_the_answers_come_is_not_told_of)
{
    begin_batch();
    for (int rank = 0; rank < 24; rank++)
        standings[rank] = STANDING_PAST;
    report(13, 12, WARN);
    expect_told(0);
}
END_TEST

START_TEST(a_batch_that_waits_for_the_longer_time_is_hopeless)
{
    begin_batch();
    sim.players[9].stopped = true;
    report(1, 0, ABORT);
    /* more reports of it do not delay the answer */
    report(2, 1, ABORT + SECOND / 2);
    watch(deadline_of_all(ABORT + SECOND / 2));
    watch(ABORT + SECOND);
    ck_assert_str_eq(sim.players[0].stall, "allreduce \"t2\" waits 600 s in vain for 1: 9 (silent)");
}
END_TEST

START_TEST(a_batch_of_a_set_that_was_removed_cannot_be_asked_about)
{
    struct desc *desc = describe(2, 4);
    const struct stalled_batch stalled = {desc, BATCH, 0, WARN};
    desc->set = 3;
    begin_batch();
    ck_assert_int_eq(negotiate_report_stall(sim.players[1].negotiate, &stalled, NULL), HVD_ERR_SET);
    desc_release(desc);
}
END_TEST

/* ---- A parent that is silent ---- */

/* Nobody asks for the root, so its children tell: of what is undecided, and of a batch. */
START_TEST(a_silent_root_is_told_of_by_its_children)
{
    bool runs = _i == 1;
    begin_batch();
    if (!runs)
        submit_but(2, 0, 0);
    sim.players[0].stopped = true;
    watch(1);
    for (int rank = 1; runs && rank < 24; rank++)
        report(rank, 0, WARN);
    watch(1 + WARN);
    expect_told(0);
    watch(1 + WARN + SECOND);
    ck_assert_str_eq(sim.players[1].stall, "allreduce \"t2\" waits 61 s for 1: 0 (silent)");
    expect_told(sim.players[0].control->child_count);
    ck_assert_int_eq(sim.players[9].stalls, 0);
}
END_TEST

START_TEST(a_parent_that_answers_is_not_silent)
{
    begin_batch();
    submit_but(2, 0, 0);
    for (int64_t now_us = 1; now_us < 5 * WARN; now_us += SECOND / 2)
        watch(now_us);
    expect_told(sim.players[0].stalls);
}
END_TEST

/* Those above a silent leader tell of it. Those below cannot be told that the job ends, so they tell
 * themselves so, a little later. */
START_TEST(those_below_a_silent_leader_end_after_those_above)
{
    begin_batch();
    sim.players[8].stopped = true;
    for (int rank = 0; rank < 24; rank++) {
        if (rank != 8)
            report(rank, 8, ABORT);
    }
    watch(ABORT + SECOND);
    ck_assert_str_eq(sim.players[0].stall, "allreduce \"t2\" waits 600 s in vain for 1: 8 (silent)");
    expect_told(1);
    watch(ABORT + 2 * SECOND);
    for (int rank = 9; rank < 12; rank++)
        ck_assert_str_eq(sim.players[rank].stall, "allreduce \"t2\" waits 602 s in vain for 1: 8 (silent)");
    expect_told(4);
}
END_TEST

START_TEST(the_lowest_ranks_are_named)
{
    struct stall_report all = {.missing = 0};
    struct stall_report part = {.missing = 0};
    for (int i = 0; i < 40; i++) {
        struct stall_rank rank = {.rank = i * 7 % 40};
        stall_report_add(i % 2 == 0 ? &all : &part, &rank);
    }
    stall_report_merge(&all, &part);
    ck_assert_int_eq(all.missing, 40);
    ck_assert_int_eq(all.named, STALL_MAX_RANKS);
    for (int i = 0; i < STALL_MAX_RANKS; i++)
        ck_assert_int_eq(all.ranks[i].rank, i);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("stall_query");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, NULL, tear_down);
    tcase_add_test(tcase, nothing_wakes_a_job_in_which_nothing_waits);
    tcase_add_loop_test(tcase, a_missing_rank_is_named_with_what_it_submitted_last, 0, 5);
    tcase_add_test(tcase, a_rank_that_was_stopped_itself_times_anew);
    tcase_add_loop_test(tcase, only_a_rank_that_does_not_answer_ends_the_job, 0, 4);
    tcase_add_test(tcase, a_rank_may_stop_to_answer_later);
    tcase_add_test(tcase, a_lone_submission_is_told_of_where_it_is_decided);
    tcase_add_test(tcase, who_decides_tells_in_its_own_time);
    tcase_add_test(tcase, two_that_wait_for_others_are_not_told_of_at_once);
    tcase_add_test(tcase, a_rank_that_does_not_answer_is_told_of_after_a_second);
    tcase_add_test(tcase, a_join_waits_for_ranks_that_answer_and_names_a_silent_one);
    tcase_add_test(tcase, a_silent_leader_is_told_of_after_a_second);
    tcase_add_test(tcase, what_is_decided_before_the_answers_come_is_not_told_of);
    tcase_add_test(tcase, what_waits_for_the_longer_time_is_hopeless);
    tcase_add_loop_test(tcase, either_time_can_be_never, 0, 3);
    tcase_add_test(tcase, a_set_asks_its_own_ranks_only);
    tcase_add_test(tcase, who_has_joined_or_left_is_not_missing);
    tcase_add_loop_test(tcase, a_silent_rank_ends_a_shutdown, 0, 4);
    tcase_add_test(tcase, many_who_wait_tell_of_it_together);
    tcase_add_test(tcase, other_missing_ranks_are_told_at_once);
    tcase_add_test(tcase, a_new_wait_is_told_at_its_first_time);
    tcase_add_loop_test(tcase, a_rank_that_stopped_in_a_batch_is_named_once, 0, 4);
    tcase_add_test(tcase, a_batch_in_which_somebody_moves_is_slow);
    tcase_add_test(tcase, a_rank_that_is_not_there_yet_is_named_with_what_it_does);
    tcase_add_test(tcase, a_batch_in_which_all_wait_is_told_of_with_who_reported_it);
    tcase_add_test(tcase, a_batch_that_is_over_when_the_answers_come_is_not_told_of);
    tcase_add_test(tcase, a_batch_that_waits_for_the_longer_time_is_hopeless);
    tcase_add_test(tcase, a_batch_of_a_set_that_was_removed_cannot_be_asked_about);
    tcase_add_loop_test(tcase, a_silent_root_is_told_of_by_its_children, 0, 2);
    tcase_add_test(tcase, a_parent_that_answers_is_not_silent);
    tcase_add_test(tcase, those_below_a_silent_leader_end_after_those_above);
    tcase_add_test(tcase, the_lowest_ranks_are_named);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("stall_query", fill);
}
