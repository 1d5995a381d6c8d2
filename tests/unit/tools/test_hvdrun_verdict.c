/* test_hvdrun_verdict.c: which rank is named as the cause of a failure, with which status and sentence. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "tools/hvdrun/verdict.h"

#define EXITED(status) ((status) << 8)
#define KILLED(signal) (signal)
#define MAX_STEPS      10

struct step {
    enum { NONE, CONNECT, FINALIZE, END, ABORT, NOT_STARTED, INTERRUPT, BROKEN, REST } kind;
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
    {{ENDS(1, EXITED(3)), ENDS_AT(0, KILLED(SIGTERM), VERDICT_TERM_SENT, 2),
      ENDS_AT(2, KILLED(SIGTERM), VERDICT_TERM_SENT, 2), ENDS_AT(3, EXITED(0), VERDICT_TERM_SENT, 2)},
     true,
     3,
     "rank 1 (n1, pid 101) exited with status 3; the other 3 ranks were terminated"},
    {{ENDS(1, KILLED(SIGKILL)), ENDS_AT(0, KILLED(SIGTERM), VERDICT_TERM_SENT, 2),
      ENDS_AT(2, KILLED(SIGKILL), VERDICT_KILL_SENT, 3), ENDS_AT(3, KILLED(SIGKILL), VERDICT_KILL_SENT, 3)},
     true,
     137,
     "rank 1 (n1, pid 101) was killed by signal 9 (Killed); of the others 1 was terminated, 2 were ended by "
     "SIGKILL, not "
     "having ended within 5s"},
    {{ENDS_AT(0, 0, VERDICT_RUNNING, 1), ENDS_AT(3, EXITED(1), VERDICT_RUNNING, 2),
      ENDS_AT(2, EXITED(4), VERDICT_RUNNING, 3), ENDS_AT(1, KILLED(SIGTERM), VERDICT_TERM_SENT, 4)},
     true,
     1,
     "rank 3 (n1, pid 103) exited with status 1; of the others 1 finished, 1 failed as well, 1 was "
     "terminated"},
    {{ENDS_AT(0, EXITED(1), VERDICT_RUNNING, 7), ENDS_AT(2, KILLED(SIGSEGV) | 0x80, VERDICT_RUNNING, 7),
      ENDS_AT(3, KILLED(SIGABRT), VERDICT_RUNNING, 7), ENDS_AT(1, KILLED(SIGTERM), VERDICT_TERM_SENT, 8)},
     true,
     139,
     "rank 2 (n1, pid 102) was killed by signal 11 (Segmentation fault) and dumped core; of the others 2 "
     "failed as well, 1 "
     "was terminated"},
    {{ENDS_AT(0, EXITED(1), VERDICT_RUNNING, 7), ENDS_AT(2, KILLED(SIGSEGV), VERDICT_RUNNING, 8)},
     true,
     1,
     "rank 0 (n1, pid 100) exited with status 1; of the others 1 failed as well, 2 cannot be ended"},
    {{CONNECTS(2), ABORTS(2, 5, "no more data"), ENDS(2, EXITED(5)),
      ENDS_AT(0, KILLED(SIGTERM), VERDICT_TERM_SENT, 0), ENDS_AT(1, KILLED(SIGTERM), VERDICT_TERM_SENT, 0),
      ENDS_AT(3, KILLED(SIGTERM), VERDICT_TERM_SENT, 0)},
     true,
     5,
     "rank 2 (n1, pid 102) aborted the job with status 5: no more data; the other 3 ranks were terminated"},
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
     "interrupted by signal 2 (Interrupt); the 4 ranks were terminated"},
    {{BREAKS("the reaper was killed")}, true, 1, "the reaper was killed; the 4 ranks cannot be ended"},
    {{BREAKS("the reaper was killed"), REST_ENDS}, true, 1, "the reaper was killed; the 4 ranks were killed"},
    {{ENDS(1, 0), BREAKS("the reaper was killed"), ENDS(0, 0), ENDS(2, 0), REST_ENDS},
     true,
     1,
     "the reaper was killed; of the others 3 finished, 1 was killed"},
    /* the start: a rank that exited without connecting is reported missing once another rank connects */
    {{ENDS(1, 0), ENDS(2, 0)}, false, 0, NULL},
    {{ENDS(1, 0), CONNECTS(0)},
     true,
     1,
     "rank 1 (n1, pid 101) exited with status 0 before it joined the job, and rank 0 would wait for it for "
     "ever; the other 3 "
     "ranks cannot be ended"},
    {{CONNECTS(0), ENDS(1, 0)}, true, 1, NULL},
    {{CONNECTS(0), FINALIZES(0), ENDS(1, 0)}, false, 0, NULL},
    {{CONNECTS(0), FINALIZES(0), ENDS(1, 0), CONNECTS(0)}, true, 1, NULL},
    {{CONNECTS(0), ENDS(0, 0), ENDS(1, 0)}, false, 0, NULL},
    {{CONNECTS(0), CONNECTS(1), ENDS(1, 0)}, false, 0, NULL},
};

static void tell(struct verdict *verdict, const struct step *step)
{
    switch (step->kind) {
    case NONE:
        break;
    case CONNECT:
        verdict_connected(verdict, step->rank);
        break;
    case FINALIZE:
        verdict_finalized(verdict, step->rank);
        break;
    case END:
        verdict_ended(verdict, step->rank, step->number, step->stage, step->sweep);
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
    struct verdict *verdict = verdict_create(4, "n1", 5000000);
    char sentence[1024];
    for (int rank = 0; rank < 4; rank++)
        verdict_started(verdict, rank, 100 + rank);
    for (int i = 0; i < MAX_STEPS; i++)
        tell(verdict, &story->steps[i]);
    ck_assert_int_eq(verdict_is_failure(verdict), story->failure);
    ck_assert_int_eq(verdict_exit_status(verdict), story->exit_status);
    verdict_sentence(verdict, sentence, sizeof(sentence));
    if (story->sentence != NULL)
        ck_assert_str_eq(sentence, story->sentence);
    verdict_destroy(verdict);
}
END_TEST

START_TEST(one_rank_has_no_others)
{
    struct verdict *verdict = verdict_create(1, "n1", 5000000);
    char sentence[1024];
    verdict_started(verdict, 0, 100);
    verdict_ended(verdict, 0, EXITED(2), VERDICT_RUNNING, 1);
    verdict_sentence(verdict, sentence, sizeof(sentence));
    ck_assert_str_eq(sentence, "rank 0 (n1, pid 100) exited with status 2");
    verdict_destroy(verdict);
}
END_TEST

START_TEST(one_other_rank)
{
    struct verdict *verdict = verdict_create(2, "n1", 5000000);
    char sentence[1024];
    verdict_started(verdict, 0, 100);
    verdict_started(verdict, 1, 101);
    verdict_ended(verdict, 0, EXITED(2), VERDICT_RUNNING, 1);
    verdict_ended(verdict, 1, 0, VERDICT_RUNNING, 1);
    verdict_sentence(verdict, sentence, sizeof(sentence));
    ck_assert_str_eq(sentence, "rank 0 (n1, pid 100) exited with status 2; the other rank finished");
    verdict_destroy(verdict);
}
END_TEST

START_TEST(a_failed_start_names_the_program)
{
    struct verdict *verdict = verdict_create(2, "n1", 5000000);
    char sentence[1024];
    verdict_started(verdict, 0, 100);
    verdict_not_started(verdict, 1, "./train", ENOEXEC);
    verdict_ended(verdict, 0, KILLED(SIGTERM), VERDICT_TERM_SENT, 1);
    verdict_sentence(verdict, sentence, sizeof(sentence));
    ck_assert_str_eq(
        sentence, "rank 1 could not be started: ./train: Exec format error; the other rank was terminated");
    verdict_destroy(verdict);
}
END_TEST

START_TEST(a_sentence_fits_its_room)
{
    struct verdict *verdict = verdict_create(2, "n1", 5000000);
    char sentence[20];
    verdict_started(verdict, 0, 100);
    verdict_ended(verdict, 0, EXITED(2), VERDICT_RUNNING, 1);
    verdict_sentence(verdict, sentence, sizeof(sentence));
    ck_assert_str_eq(sentence, "rank 0 (n1, pid 100");
    verdict_destroy(verdict);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("verdict");
    tcase_add_loop_test(tcase, story_is_judged, 0, sizeof(stories) / sizeof(stories[0]));
    tcase_add_test(tcase, one_rank_has_no_others);
    tcase_add_test(tcase, one_other_rank);
    tcase_add_test(tcase, a_failed_start_names_the_program);
    tcase_add_test(tcase, a_sentence_fits_its_room);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_verdict", fill);
}
