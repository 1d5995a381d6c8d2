/* test_verdict.c: which rank is named as the cause of a failure, with which status and sentence. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "verdict/memory_events.h"
#include "verdict/verdict.h"

#define EXITED(status) ((status) << 8)
#define KILLED(signal) (signal)
#define MAX_STEPS      10
#define STARTED_US     INT64_C(7000000)

struct step {
    enum {
        NONE,
        START,
        CONNECT,
        FINALIZE,
        END,
        SURVIVE,
        GIVE_UP,
        ABORT,
        NOT_STARTED,
        INTERRUPT,
        BROKEN,
        REST
    } kind;
    int rank;
    int number;
    enum verdict_stage stage;
    uint64_t sweep;
    const char *text;
};

/* Ranks 0 to 3 are started, with pids 100 to 103. */
struct story {
    struct step steps[MAX_STEPS];
    bool failure;
    int exit_status;
    const char *sentence;
};

#define ENDS_AT(rank, status, stage, sweep)   \
    {                                         \
        END, rank, status, stage, sweep, NULL \
    }
#define ENDS(rank, status) ENDS_AT(rank, status, VERDICT_RUNNING, 0)
#define SURVIVES(rank, status, sweep)                       \
    {                                                       \
        SURVIVE, rank, status, VERDICT_RUNNING, sweep, NULL \
    }
#define GIVES_UP                                \
    {                                           \
        GIVE_UP, 0, 0, VERDICT_RUNNING, 0, NULL \
    }
#define STARTS_AGAIN(rank)                       \
    {                                            \
        START, rank, 0, VERDICT_RUNNING, 0, NULL \
    }
#define CONNECTS(rank)                             \
    {                                              \
        CONNECT, rank, 0, VERDICT_RUNNING, 0, NULL \
    }
#define FINALIZES(rank)                             \
    {                                               \
        FINALIZE, rank, 0, VERDICT_RUNNING, 0, NULL \
    }
#define ABORTS(rank, status, text)                    \
    {                                                 \
        ABORT, rank, status, VERDICT_RUNNING, 0, text \
    }
#define IS_NOT_STARTED(rank, number, text)                  \
    {                                                       \
        NOT_STARTED, rank, number, VERDICT_RUNNING, 0, text \
    }
#define IS_INTERRUPTED(signal)                         \
    {                                                  \
        INTERRUPT, 0, signal, VERDICT_RUNNING, 0, NULL \
    }
#define BREAKS(text)                           \
    {                                          \
        BROKEN, 0, 0, VERDICT_RUNNING, 0, text \
    }
#define REST_ENDS                            \
    {                                        \
        REST, 0, 0, VERDICT_RUNNING, 0, NULL \
    }

static const struct story stories[] = {
    {{ENDS(0, 0), ENDS(1, 0), ENDS(2, 0), ENDS(3, 0)}, false, 0, ""},
    /* elastic jobs */
    {{SURVIVES(1, KILLED(SIGKILL), 1), ENDS(0, 0), ENDS(2, 0), ENDS(3, 0)}, false, 0, ""},
    {{SURVIVES(2, KILLED(SIGKILL), 1), SURVIVES(1, EXITED(4), 2), GIVES_UP, ENDS(0, EXITED(3)),
      ENDS_AT(3, KILLED(SIGTERM), VERDICT_TERM_SENT, 3)},
     true,
     137,
     "hvd: rank 2 (n1, pid 102) failed first: killed by SIGKILL, 1.5 s after start; 3 other ranks ended "
     "after "
     "it"},
    {{ENDS(1, KILLED(SIGTERM)), ENDS(0, KILLED(SIGTERM)), ENDS(2, 0), ENDS(3, 0)},
     true,
     143,
     "hvd: rank 1 (n1, pid 101) was ended first: killed by SIGTERM (from outside: cancelled, interrupted, or "
     "over a time limit), 1.5 s after start; 3 other ranks ended after it"},
    {{ENDS(1, KILLED(SIGPIPE)), ENDS(0, KILLED(SIGPIPE)), ENDS(2, KILLED(SIGPIPE)), ENDS(3, KILLED(SIGPIPE))},
     true,
     141,
     "hvd: rank 1 (n1, pid 101) was ended first: killed by SIGPIPE (the reader of its output has gone, such "
     "as "
     "head), 1.5 s after start; 3 other ranks ended after it"},
    {{SURVIVES(2, KILLED(SIGKILL), 1), IS_INTERRUPTED(SIGINT), ENDS(0, 0), ENDS(1, 0), ENDS(3, 0)},
     true,
     130,
     "hvdrun: interrupted by SIGINT; of 4 ranks 1 had been lost before, 3 ended after it"},
    {{ENDS(1, EXITED(3)), ENDS_AT(0, KILLED(SIGTERM), VERDICT_TERM_SENT, 2),
      ENDS_AT(2, KILLED(SIGTERM), VERDICT_TERM_SENT, 2), ENDS_AT(3, EXITED(0), VERDICT_TERM_SENT, 2)},
     true,
     3,
     "hvd: rank 1 (n1, pid 101) failed first: exited with status 3, 1.5 s after start; 3 other ranks ended "
     "after it"},
    {{ENDS(1, KILLED(SIGKILL)), ENDS_AT(0, KILLED(SIGTERM), VERDICT_TERM_SENT, 2),
      ENDS_AT(2, KILLED(SIGKILL), VERDICT_KILL_SENT, 3), ENDS_AT(3, KILLED(SIGKILL), VERDICT_KILL_SENT, 3)},
     true,
     137,
     "hvd: rank 1 (n1, pid 101) failed first: killed by SIGKILL, 1.5 s after start; of 3 other ranks 1 ended "
     "after it, 2 were killed, not having ended within 5.0 s"},
    {{ENDS_AT(0, 0, VERDICT_RUNNING, 1), ENDS_AT(3, EXITED(1), VERDICT_RUNNING, 2),
      ENDS_AT(2, EXITED(4), VERDICT_RUNNING, 3), ENDS_AT(1, KILLED(SIGTERM), VERDICT_TERM_SENT, 4)},
     true,
     1,
     "hvd: rank 3 (n1, pid 103) failed first: exited with status 1, 1.5 s after start; of 3 other ranks 1 "
     "had finished before it, 2 ended after it"},
    {{ENDS_AT(0, EXITED(1), VERDICT_RUNNING, 7), ENDS_AT(2, KILLED(SIGSEGV) | 0x80, VERDICT_RUNNING, 7),
      ENDS_AT(3, KILLED(SIGABRT), VERDICT_RUNNING, 7), ENDS_AT(1, KILLED(SIGTERM), VERDICT_TERM_SENT, 8)},
     true,
     139,
     "hvd: rank 2 (n1, pid 102) failed first: killed by SIGSEGV (core dumped), 1.5 s after start; 3 other "
     "ranks ended after it"},
    {{ENDS_AT(0, EXITED(1), VERDICT_RUNNING, 7), ENDS_AT(2, KILLED(SIGSEGV), VERDICT_RUNNING, 8)},
     true,
     1,
     "hvd: rank 0 (n1, pid 100) failed first: exited with status 1, 1.5 s after start; of 3 other ranks 1 "
     "ended after it, 2 cannot be ended"},
    {{CONNECTS(2), ABORTS(2, 5, "no more data"), ENDS(2, EXITED(5)),
      ENDS_AT(0, KILLED(SIGTERM), VERDICT_TERM_SENT, 0), ENDS_AT(1, KILLED(SIGTERM), VERDICT_TERM_SENT, 0),
      ENDS_AT(3, KILLED(SIGTERM), VERDICT_TERM_SENT, 0)},
     true,
     5,
     "hvd: rank 2 (n1, pid 102) failed first: aborted the job with status 5: no more data, 1.5 s after "
     "start; 3 other ranks ended after it"},
    {{ABORTS(2, 256, "")}, true, 1, NULL},
    {{ABORTS(2, -1, "")}, true, 255, NULL},
    {{ABORTS(2, 0, "")}, true, 0, NULL},
    {{IS_NOT_STARTED(0, ENOEXEC, "./train")}, true, 126, NULL},
    {{IS_NOT_STARTED(0, ENOENT, "./train")}, true, 127, NULL},
    {{IS_INTERRUPTED(SIGINT), ENDS_AT(0, KILLED(SIGINT), VERDICT_TERM_SENT, 0),
      ENDS_AT(1, EXITED(1), VERDICT_TERM_SENT, 0), ENDS_AT(2, KILLED(SIGINT), VERDICT_TERM_SENT, 0),
      ENDS_AT(3, KILLED(SIGINT), VERDICT_TERM_SENT, 0)},
     true,
     130,
     "hvdrun: interrupted by SIGINT; 4 ranks ended after it"},
    {{BREAKS("the reaper was killed")}, true, 1, "hvdrun: the reaper was killed; 4 ranks cannot be ended"},
    {{BREAKS("the reaper was killed"), REST_ENDS},
     true,
     1,
     "hvdrun: the reaper was killed; 4 ranks were killed"},
    {{ENDS(1, 0), BREAKS("the reaper was killed"), ENDS(0, 0), ENDS(2, 0), REST_ENDS},
     true,
     1,
     "hvdrun: the reaper was killed; of 4 ranks 1 had finished before it, 2 ended after it, 1 was killed"},
    /* of a rank that was started again the last process counts */
    {{CONNECTS(1), SURVIVES(1, KILLED(SIGKILL), 0), STARTS_AGAIN(1), ENDS(0, 0), ENDS(1, 0), ENDS(2, 0),
      ENDS(3, 0)},
     false,
     0,
     NULL},
    {{SURVIVES(1, KILLED(SIGKILL), 0), STARTS_AGAIN(1), GIVES_UP, ENDS(1, EXITED(3))},
     true,
     3,
     "hvd: rank 1 (n1, pid 201) failed first: exited with status 3, 500 ms after start; 3 other ranks cannot "
     "be "
     "ended"},
    /* the process that takes the place of the first failure is late, and what ends it changes nothing */
    {{SURVIVES(2, KILLED(SIGKILL), 1), GIVES_UP, ENDS_AT(1, KILLED(SIGKILL), VERDICT_RUNNING, 2),
      STARTS_AGAIN(2), ENDS_AT(2, KILLED(SIGTERM), VERDICT_TERM_SENT, 3)},
     true,
     137,
     "hvd: rank 2 (n1, pid 102) failed first: killed by SIGKILL, 1.5 s after start; of 3 other ranks 1 "
     "ended after it, 2 cannot be ended"},
    /* the start: a rank that exited without connecting is reported missing once another rank connects */
    {{ENDS(1, 0), ENDS(2, 0)}, false, 0, NULL},
    {{ENDS(1, 0), CONNECTS(0)},
     true,
     1,
     "hvd: rank 1 (n1, pid 101) failed first: exited with status 0 before it joined the job, which rank 0 "
     "waited for, 1.5 s after start; 3 other ranks cannot be ended"},
    {{CONNECTS(0), ENDS(1, 0)}, true, 1, NULL},
    {{CONNECTS(0), FINALIZES(0), ENDS(1, 0)}, false, 0, NULL},
    {{CONNECTS(0), FINALIZES(0), ENDS(1, 0), CONNECTS(0)}, true, 1, NULL},
    {{CONNECTS(0), ENDS(0, 0), ENDS(1, 0)}, true, 1, NULL},
    {{CONNECTS(0), CONNECTS(1), ENDS(1, 0)}, true, 1, NULL},
    /* one that leaves PMIx open is to blame for those that fail as they hear of it, also if it is reaped
     * later; not so for one that a signal killed, nor if hvdrun has asked it to end */
    {{CONNECTS(0), CONNECTS(1), ENDS(0, EXITED(1)), ENDS(1, 0)},
     true,
     1,
     "hvd: rank 1 (n1, pid 101) failed first: exited with status 0 without MPI_Finalize, which a rank must "
     "call that has called MPI_Init, 1.5 s after start; of 3 other ranks 1 ended after it, 2 cannot be "
     "ended"},
    {{CONNECTS(0), CONNECTS(1), ENDS(0, KILLED(SIGSEGV)), ENDS(1, 0)}, true, 139, NULL},
    {{CONNECTS(0), CONNECTS(1), ENDS(0, EXITED(3)), ENDS_AT(1, 0, VERDICT_TERM_SENT, 2)}, true, 3, NULL},
};

/* A job of [size] ranks, all started on node n1, with pids from 100. */
static struct verdict *started_job(int size)
{
    struct verdict *verdict = verdict_create(size);
    for (int rank = 0; rank < size; rank++)
        verdict_started(verdict, rank, "n1", 100 + rank, STARTED_US);
    return verdict;
}

static void expect_sentence(const struct verdict *verdict, const struct verdict_facts *facts,
                            const char *expected)
{
    char sentence[VERDICT_LINE_BYTES];
    verdict_sentence(verdict, facts, sentence);
    ck_assert_str_eq(sentence, expected);
}

/* It ends 1.5 s after its start, and would have been killed after 5 s. */
static void end_rank(struct verdict *verdict, int rank, int wait_status, enum verdict_stage stage,
                     uint64_t sweep)
{
    const struct verdict_end end = {.wait_status = wait_status,
                                    .stage = stage,
                                    .sweep = sweep,
                                    .at_us = STARTED_US + 1500000,
                                    .grace_us = stage == VERDICT_KILL_SENT ? 5000000 : 0};
    verdict_ended(verdict, rank, &end);
}

static void tell(struct verdict *verdict, const struct step *step)
{
    switch (step->kind) {
    case NONE:
        break;
    case START:
        verdict_started(verdict, step->rank, "n1", 200 + step->rank, STARTED_US + 1000000);
        break;
    case CONNECT:
        verdict_connected(verdict, step->rank);
        break;
    case FINALIZE:
        verdict_finalized(verdict, step->rank);
        break;
    case END:
        end_rank(verdict, step->rank, step->number, step->stage, step->sweep);
        break;
    case SURVIVE: {
        const struct verdict_end end = {.wait_status = step->number,
                                        .sweep = step->sweep,
                                        .at_us = STARTED_US + 1500000 + (int64_t)step->sweep};
        verdict_survived(verdict, step->rank, &end);
        break;
    }
    case GIVE_UP:
        verdict_gave_up(verdict);
        break;
    case ABORT:
        verdict_aborted(verdict, step->rank, step->number, step->text);
        break;
    case NOT_STARTED:
        verdict_not_started(verdict, step->rank, step->text, step->number);
        break;
    case INTERRUPT:
        verdict_interrupted(verdict, step->number);
        break;
    case BROKEN:
        verdict_broken(verdict, step->text);
        break;
    case REST:
        verdict_rest_ended(verdict);
        break;
    }
}

START_TEST(story_is_judged)
{
    const struct story *story = &stories[_i];
    struct verdict *verdict = started_job(4);
    for (int i = 0; i < MAX_STEPS; i++)
        tell(verdict, &story->steps[i]);
    ck_assert_int_eq(verdict_is_failure(verdict), story->failure);
    ck_assert_int_eq(verdict_exit_status(verdict), story->exit_status);
    if (story->sentence != NULL)
        expect_sentence(verdict, NULL, story->sentence);
    verdict_destroy(verdict);
}
END_TEST

START_TEST(a_rank_that_was_told_to_leave_has_not_failed)
{
    struct verdict *verdict = started_job(3);
    verdict_left(verdict, 2);
    ck_assert(!verdict_is_failure(verdict));
    verdict_gave_up(verdict);
    end_rank(verdict, 1, EXITED(4), VERDICT_RUNNING, 1);
    end_rank(verdict, 0, KILLED(SIGTERM), VERDICT_TERM_SENT, 2);
    expect_sentence(
        verdict, NULL,
        "hvd: rank 1 (n1, pid 101) failed first: exited with status 4, 1.5 s after start; 1 other "
        "rank ended after it");
    verdict_started(verdict, 2, "n1", 300, STARTED_US); /* its slot is used again */
    end_rank(verdict, 2, 0, VERDICT_RUNNING, 3);
    expect_sentence(
        verdict, NULL,
        "hvd: rank 1 (n1, pid 101) failed first: exited with status 4, 1.5 s after start; 2 other "
        "ranks ended after it");
    verdict_destroy(verdict);
}
END_TEST

START_TEST(a_job_that_lacks_ranks_may_be_tried_again)
{
    struct verdict *verdict = started_job(2);
    verdict_lacks(verdict, "1 rank is left");
    ck_assert(verdict_is_failure(verdict));
    ck_assert_int_eq(verdict_exit_status(verdict), 75);
    end_rank(verdict, 0, KILLED(SIGTERM), VERDICT_TERM_SENT, 1);
    end_rank(verdict, 1, KILLED(SIGTERM), VERDICT_TERM_SENT, 1);
    ck_assert_int_eq(verdict_exit_status(verdict), 75);
    expect_sentence(verdict, NULL, "hvdrun: 1 rank is left; 2 ranks ended after it");
    verdict_destroy(verdict);
}
END_TEST

START_TEST(one_rank_has_no_others)
{
    struct verdict *verdict = started_job(1);
    end_rank(verdict, 0, EXITED(2), VERDICT_RUNNING, 1);
    expect_sentence(verdict, NULL,
                    "hvd: rank 0 (n1, pid 100) failed first: exited with status 2, 1.5 s after start");
    verdict_destroy(verdict);
}
END_TEST

START_TEST(one_other_rank)
{
    struct verdict *verdict = started_job(2);
    end_rank(verdict, 0, EXITED(2), VERDICT_RUNNING, 1);
    end_rank(verdict, 1, 0, VERDICT_RUNNING, 1);
    expect_sentence(verdict, NULL,
                    "hvd: rank 0 (n1, pid 100) failed first: exited with status 2, 1.5 s after "
                    "start; 1 other rank ended after it");
    verdict_destroy(verdict);
}
END_TEST

START_TEST(a_failed_start_names_the_program)
{
    struct verdict *verdict = verdict_create(2);
    verdict_started(verdict, 0, "n1", 100, STARTED_US);
    verdict_not_started(verdict, 1, "./train", ENOEXEC);
    end_rank(verdict, 0, KILLED(SIGTERM), VERDICT_TERM_SENT, 1);
    expect_sentence(
        verdict, NULL,
        "hvdrun: rank 1 could not be started: ./train: Exec format error; 1 other rank ended after it");
    verdict_destroy(verdict);
}
END_TEST

/* Every part as long as it may be: the line has its limit, and ends with what the others did. */
START_TEST(the_longest_line_has_300_characters)
{
    static struct verdict_facts facts;
    char sentence[VERDICT_LINE_BYTES], host[256];
    memset(&facts, 'x', sizeof(facts));
    memset(host, 'h', sizeof(host));
    host[_i == 0 ? 20 : 255] = 0;
    facts.gpu[sizeof(facts.gpu) - 1] = facts.doing[sizeof(facts.doing) - 1] = 0;
    facts.error[sizeof(facts.error) - 1] = facts.memory[sizeof(facts.memory) - 1] = 0;
    facts.core[sizeof(facts.core) - 1] = 0;
    struct verdict *verdict = verdict_create(3);
    for (int rank = 0; rank < 3; rank++)
        verdict_started(verdict, rank, host, 4194304, STARTED_US);
    end_rank(verdict, 0, _i == 1 ? KILLED(SIGKILL) : EXITED(1), VERDICT_RUNNING, 1);
    end_rank(verdict, 1, KILLED(SIGKILL), VERDICT_KILL_SENT, 2);
    end_rank(verdict, 2, KILLED(SIGTERM), VERDICT_TERM_SENT, 3);
    verdict_sentence(verdict, &facts, sentence);
    ck_assert_uint_eq(strlen(sentence), 300);
    ck_assert_ptr_nonnull(strstr(
        sentence, "...; of 2 other ranks 1 ended after it, 1 was killed, not having ended within 5.0 s"));
    if (_i == 0)
        ck_assert_ptr_nonnull(strstr(sentence, "xxx..., exited with status 1, 1.5 s after start"));
    verdict_destroy(verdict);
}
END_TEST

START_TEST(no_character_is_cut_in_two)
{
    static struct verdict_facts facts;
    struct verdict *verdict = started_job(1);
    char sentence[VERDICT_LINE_BYTES];
    for (size_t i = 0; i < sizeof(facts.doing) - 1 - (size_t)_i; i++)
        facts.doing[i] = i < (size_t)_i ? 'x' : (char)((i - (size_t)_i) % 2 == 0 ? 0xc3 : 0xa4);
    end_rank(verdict, 0, EXITED(2), VERDICT_RUNNING, 1);
    verdict_sentence(verdict, &facts, sentence);
    ck_assert_uint_ge(strlen(sentence), 299);
    ck_assert_ptr_nonnull(strstr(sentence, "\xc3\xa4..."));
    verdict_destroy(verdict);
}
END_TEST

START_TEST(a_reason_that_the_exception_has_is_not_said_twice)
{
    struct verdict_facts facts = {
        .error = "RankLostError: allreduce \"x\": rank 2 (n3) was lost: nothing was heard",
        .doing = "after allreduce \"x\" failed: rank 2 (n3) was lost: nothing was heard"};
    struct verdict *verdict = started_job(1);
    end_rank(verdict, 0, EXITED(1), VERDICT_RUNNING, 1);
    expect_sentence(
        verdict, &facts,
        "hvd: rank 0 (n1, pid 100) failed first: RankLostError: allreduce \"x\": rank 2 (n3) was lost: "
        "nothing was heard, exited with status 1, 1.5 s after start, after allreduce \"x\" failed");
    snprintf(facts.error, sizeof(facts.error), "ValueError: no more data");
    expect_sentence(
        verdict, &facts,
        "hvd: rank 0 (n1, pid 100) failed first: ValueError: no more data, exited with status 1, 1.5 s "
        "after start, after allreduce \"x\" failed: rank 2 (n3) was lost: nothing was heard");
    verdict_destroy(verdict);
}
END_TEST

/* A status after hvd_shutdown is for who started the job, unless the program says that it failed. */
static const struct {
    int wait_status;
    const char *error, *sentence;
} orderly[] = {
    {EXITED(85), "",
     "hvd: rank 0 (n1, pid 100) ended first: exited with status 85, 1.5 s after start, after hvd_shutdown; 1 "
     "other "
     "rank ended after it"},
    {EXITED(1), "ValueError: no more data",
     "hvd: rank 0 (n1, pid 100) failed first: ValueError: no more data, exited with status 1, 1.5 s after "
     "start, "
     "after hvd_shutdown; 1 other rank ended after it"},
    {KILLED(SIGSEGV), "",
     "hvd: rank 0 (n1, pid 100) failed first: killed by SIGSEGV, 1.5 s after start, after hvd_shutdown; 1 "
     "other "
     "rank ended after it"},
};

START_TEST(a_rank_that_had_left_the_job_has_not_failed_in_it)
{
    struct verdict_facts facts = {.doing = "after allreduce \"x\""};
    struct verdict *verdict = started_job(2);
    const struct verdict_end end = {
        .wait_status = orderly[_i].wait_status, .at_us = STARTED_US + 1500000, .joined = true, .left = true};
    snprintf(facts.error, sizeof(facts.error), "%s", orderly[_i].error);
    verdict_ended(verdict, 0, &end);
    verdict_ended(verdict, 1, &end);
    expect_sentence(verdict, &facts, orderly[_i].sentence);
    verdict_destroy(verdict);
}
END_TEST

START_TEST(what_is_known_of_the_first_is_said)
{
    const struct verdict_facts facts = {.gpu = "GPU 0000:17:00.0",
                                        .doing = "in allreduce \"layer3.weight\"",
                                        .memory = "out of memory: limit 4000 MiB"};
    struct verdict *verdict = verdict_create(2);
    verdict_started(verdict, 0, "n1", 100, STARTED_US);
    verdict_started(verdict, 1, "n2", 4711, STARTED_US);
    end_rank(verdict, 1, KILLED(SIGKILL), VERDICT_RUNNING, 1);
    end_rank(verdict, 0, KILLED(SIGTERM), VERDICT_TERM_SENT, 2);
    ck_assert_int_eq(verdict_wait_status(verdict), KILLED(SIGKILL));
    ck_assert_int_eq(verdict_rank(verdict), 1);
    expect_sentence(verdict, &facts,
                    "hvd: rank 1 (n2, pid 4711, GPU 0000:17:00.0) failed first: killed by SIGKILL "
                    "(out of memory: limit 4000 MiB), 1.5 s after start, in "
                    "allreduce \"layer3.weight\"; 1 other rank ended after it");
    verdict_destroy(verdict);
}
END_TEST

START_TEST(an_exception_comes_before_the_status)
{
    const struct verdict_facts facts = {.error = "ValueError: no more data (train.py:31)"};
    struct verdict *verdict = verdict_create(1);
    verdict_started(verdict, 0, "n2", 100, STARTED_US);
    end_rank(verdict, 0, EXITED(1), VERDICT_RUNNING, 1);
    expect_sentence(verdict, &facts,
                    "hvd: rank 0 (n2, pid 100) failed first: ValueError: no more data "
                    "(train.py:31), exited with status 1, 1.5 s after start");
    verdict_destroy(verdict);
}
END_TEST

/* Rank 1 exits with 0 without leaving hvd's job; rank 0 then ends with [status], having lost [lost]. */
static void leave_early(struct verdict *verdict, const char *lost, int status)
{
    struct verdict_end end = {.at_us = STARTED_US + 1500000, .stayed = true};
    verdict_ended(verdict, 1, &end);
    ck_assert(!verdict_is_failure(verdict));
    end.wait_status = status;
    end.told = lost[0] != 0;
    snprintf(end.lost, sizeof(end.lost), "%s", lost);
    verdict_ended(verdict, 0, &end);
}

static const struct {
    const char *lost;
    int status;
    int blamed, exit_status;
} early[] = {{"allreduce \"x\"", EXITED(9), 1, 1},         {"", EXITED(9), 0, 9}, /* it failed by itself */
             {"allreduce \"x\"", KILLED(SIGSEGV), 0, 139},                        /* the same */
             {"allreduce \"x\"", KILLED(SIGABRT), 1, 1},   {"", KILLED(SIGABRT), 0, 134},
             {"allreduce \"x\"", EXITED(0), -1, 0}}; /* it could live with the loss */

START_TEST(a_rank_that_leaves_early_is_the_first_to_fail)
{
    struct verdict *verdict = started_job(2);
    leave_early(verdict, early[_i].lost, early[_i].status);
    ck_assert_int_eq(verdict_rank(verdict), early[_i].blamed);
    ck_assert_int_eq(verdict_exit_status(verdict), early[_i].exit_status);
    if (early[_i].blamed == 1)
        expect_sentence(verdict, NULL,
                        "hvd: rank 1 (n1, pid 101) failed first: exited with status 0 while "
                        "others waited for allreduce \"x\", 1.5 s after start; 1 other rank "
                        "ended after it");
    verdict_destroy(verdict);
}
END_TEST

/* Rank 0 was reaped before rank 1. */
static const struct {
    bool told[2];
    int wait_statuses[2];
    uint64_t sweep_of_1;
    enum verdict_stage stage_of_1;
    int blamed;
} ends[] = {
    {{true, false}, {EXITED(3), EXITED(9)}, 1, VERDICT_RUNNING, 1},
    {{true, true}, {EXITED(3), EXITED(9)}, 1, VERDICT_RUNNING, 0},
    {{false, false}, {EXITED(3), EXITED(9)}, 1, VERDICT_RUNNING, 0},
    {{true, false}, {KILLED(SIGABRT), EXITED(9)}, 1, VERDICT_RUNNING, 1},
    {{false, true}, {EXITED(3), KILLED(SIGSEGV)}, 1, VERDICT_RUNNING, 1},
    {{true, false}, {EXITED(3), EXITED(9)}, 2, VERDICT_RUNNING, 1},
    {{true, false}, {EXITED(3), EXITED(9)}, 2, VERDICT_TERM_SENT, 0},
    {{true, true}, {EXITED(3), EXITED(9)}, 2, VERDICT_RUNNING, 0},
};

START_TEST(a_rank_that_was_told_of_a_loss_is_not_the_first_to_fail)
{
    struct verdict *verdict = started_job(2);
    for (int rank = 0; rank < 2; rank++) {
        const struct verdict_end end = {.wait_status = ends[_i].wait_statuses[rank],
                                        .sweep = rank == 0 ? 1 : ends[_i].sweep_of_1,
                                        .stage = rank == 0 ? VERDICT_RUNNING : ends[_i].stage_of_1,
                                        .stayed = true,
                                        .told = ends[_i].told[rank]};
        verdict_ended(verdict, rank, &end);
    }
    ck_assert_int_eq(verdict_rank(verdict), ends[_i].blamed);
    verdict_destroy(verdict);
}
END_TEST

/* As srun hears of it: the rank that a loss made fail is told of before the rank that was lost. */
START_TEST(a_cause_that_is_heard_of_late_is_blamed)
{
    struct verdict *verdict = verdict_create(6);
    verdict_hears_in_any_order(verdict);
    struct verdict_end end = {
        .wait_status = EXITED(1), .at_us = STARTED_US + 1500000, .told = true, .lost = "barrier \"b\""};
    verdict_started(verdict, 0, "n1", 100, STARTED_US);
    verdict_started(verdict, 4, "n3", 104, STARTED_US);
    verdict_started(verdict, 5, "n3", 105, STARTED_US);
    verdict_ended(verdict, 0, &end);
    ck_assert_int_eq(verdict_rank(verdict), 0);
    end.wait_status = KILLED(SIGSEGV);
    end.told = false;
    verdict_ended(verdict, 5, &end);
    ck_assert_int_eq(verdict_rank(verdict), 5);
    verdict_ended(verdict, 4, &end); /* too late */
    verdict_rest_unknown(verdict, 3);
    expect_sentence(verdict, NULL,
                    "hvd: rank 5 (n3, pid 105) failed first: killed by SIGSEGV, 1.5 s after "
                    "start; of 5 other ranks 3 ended after it");
    verdict_rest_unknown(verdict, 5);
    expect_sentence(verdict, NULL,
                    "hvd: rank 5 (n3, pid 105) failed first: killed by SIGSEGV, 1.5 s after start; 5 other "
                    "ranks ended after it");
    verdict_destroy(verdict);
}
END_TEST

static const struct {
    const char *path, *step;
} groups[] = {
    {"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/slurm",
     "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0"},
    {"/sys/fs/cgroup/memory/slurm/uid_1/job_7/step_0", "/sys/fs/cgroup/memory/slurm/uid_1/job_7/step_0"},
    {"/sys/fs/cgroup/user.slice", NULL},
    {"", NULL},
};

START_TEST(the_control_group_of_a_step_is_found)
{
    char path[128];
    snprintf(path, sizeof(path), "%s", groups[_i].path);
    ck_assert_int_eq(memory_events_cut_at_step(path), groups[_i].step != NULL);
    ck_assert_str_eq(path, groups[_i].step != NULL ? groups[_i].step : groups[_i].path);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("verdict");
    unit_add_rounds(tcase, story_is_judged, 0, sizeof(stories) / sizeof(stories[0]));
    tcase_add_test(tcase, a_rank_that_was_told_to_leave_has_not_failed);
    tcase_add_test(tcase, a_job_that_lacks_ranks_may_be_tried_again);
    tcase_add_test(tcase, one_rank_has_no_others);
    tcase_add_test(tcase, one_other_rank);
    tcase_add_test(tcase, a_failed_start_names_the_program);
    tcase_add_test(tcase, what_is_known_of_the_first_is_said);
    tcase_add_test(tcase, an_exception_comes_before_the_status);
    unit_add_rounds(tcase, a_rank_that_leaves_early_is_the_first_to_fail, 0,
                    sizeof(early) / sizeof(early[0]));
    unit_add_rounds(tcase, a_rank_that_was_told_of_a_loss_is_not_the_first_to_fail, 0,
                    sizeof(ends) / sizeof(ends[0]));
    tcase_add_loop_test(tcase, the_longest_line_has_300_characters, 0, 2);
    tcase_add_loop_test(tcase, no_character_is_cut_in_two, 0, 2);
    tcase_add_test(tcase, a_reason_that_the_exception_has_is_not_said_twice);
    tcase_add_loop_test(tcase, a_rank_that_had_left_the_job_has_not_failed_in_it, 0,
                        sizeof(orderly) / sizeof(orderly[0]));
    tcase_add_test(tcase, a_cause_that_is_heard_of_late_is_blamed);
    unit_add_rounds(tcase, the_control_group_of_a_step_is_found, 0, sizeof(groups) / sizeof(groups[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("verdict", fill);
}
