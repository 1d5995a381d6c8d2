/* test_stall_inspector.c: what the user is told about an operation that waits too long, and when the job ends
 * for it. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "flow/stall_inspector.h"
#include "negotiate/stall_report.h"
#include "net/peer_table.h"

static struct peer peers[4] = {{.host = "n1"}, {.host = "n1"}, {.host = "n2"}, {.host = "n2"}};
static const struct peer_table peer_table = {.rank = 0, .size = 4, .peers = peers};

static struct stall_report stall = {
    .missing = 3,
    .named = 3,
    .ranks = {{.rank = 1, .state = STALL_ELSEWHERE, .last = "allreduce \"v\""},
              {.rank = 2, .state = STALL_NOTHING},
              {.rank = 3, .state = STALL_SILENT}}};

static const char report[] =
    "in allreduce \"w\" for 61.5 s, waits for 3 ranks: rank 1 (n1) last submitted allreduce \"v\"; rank 2 "
    "(n2) has "
    "submitted nothing yet; rank 3 (n2) does not answer, so the ranks below it in the control tree cannot be "
    "asked; 1 other operation of that process set waits too";

static struct desc *desc;
static struct decision decision;

static void begin(void)
{
    desc = desc_create(1);
    desc->kind = DESC_ALLREDUCE;
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "w");
    decision = (struct decision){
        .kind = DECISION_STALLED, .desc = desc, .stall = &stall, .waited_us = 61500000, .others = 1};
}

static void end(void)
{
    desc_release(desc);
}

START_TEST(each_missing_rank_is_named_with_what_it_does)
{
    char text[STALL_TEXT_BYTES];
    stall_inspector_format(&peer_table, &decision, text, sizeof(text));
    ck_assert_str_eq(text, report);
}
END_TEST

/* Only ranks in operations of the same kind without a name have counted differently. */
START_TEST(ranks_that_count_unnamed_operations_differently_are_told)
{
    static const char *const lasts[] = {"allreduce \"allreduce.noname.x\"",
                                        "allreduce \"allreduce.noname.3\"",
                                        "broadcast \"broadcast.noname.5\"",
                                        "grouped allreduce \"grouped_allreduce.noname.5_1of2\" and 1 more",
                                        "allreduce \"allreduce.noname.5\" of process set 2"};
    char text[STALL_TEXT_BYTES];
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "allreduce.noname.3");
    for (size_t i = 0; i < sizeof(lasts) / sizeof(lasts[0]); i++) {
        snprintf(stall.ranks[0].last, sizeof(stall.ranks[0].last), "%s", lasts[i]);
        stall_inspector_format(&peer_table, &decision, text, sizeof(text));
        ck_assert((strstr(text, "unnamed") != NULL) == (i == 4));
    }
    ck_assert(strstr(text,
                     "; rank 0 waits in its 4th unnamed allreduce, rank 1 in its 6th: give names, or call "
                     "join") != NULL);
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "grouped_allreduce.noname.20_1of2");
    snprintf(stall.ranks[0].last, sizeof(stall.ranks[0].last), "%s \"grouped_allreduce.noname.11_1of2\"",
             "x");
    stall_inspector_format(&peer_table, &decision, text, sizeof(text));
    ck_assert(strstr(text, "in its 21st unnamed grouped_allreduce, rank 1 in its 12th: ") != NULL);
}
END_TEST

START_TEST(ranks_that_are_not_named_are_counted)
{
    char text[STALL_TEXT_BYTES];
    stall.missing = 20;
    decision.others = 0;
    stall_inspector_format(&peer_table, &decision, text, sizeof(text));
    ck_assert(strstr(text, "for 20 ranks: ") != NULL);
    ck_assert_str_eq(text + strlen(text) - strlen("; and 17 more"), "; and 17 more");
}
END_TEST

/* Whatever its length: the text ends in "..." if and only if it does not fit with its final 0. */
START_TEST(a_text_that_does_not_fit_says_so)
{
    char text[sizeof(report) + 8];
    for (size_t bytes = 4; bytes <= sizeof(report) + 7; bytes++) {
        memset(text, 'G', sizeof(text));
        stall_inspector_format(&peer_table, &decision, text, bytes);
        ck_assert_int_eq(text[bytes], 'G');
        if (bytes >= sizeof(report)) {
            ck_assert_str_eq(text, report);
            continue;
        }
        ck_assert_uint_eq(strlen(text), bytes - 1);
        ck_assert_mem_eq(text, report, bytes - 4);
        ck_assert_str_eq(text + bytes - 4, "...");
    }
}
END_TEST

/* ---- The report ---- */

static char line[2000];
static int line_level;

static void log_sink(void *arg, enum log_level level, const char *component, const char *text)
{
    (void)arg;
    line_level = (int)level;
    snprintf(line, sizeof(line), "%s: %s", component, text);
}

static struct {
    int count, status, rank;
    char sentence[sizeof(((struct hvd_error *)0)->text)];
} aborted;

static void record_abort(struct control *control, int status, int rank, const char *sentence)
{
    (void)control;
    aborted.count++;
    aborted.status = status;
    aborted.rank = rank;
    snprintf(aborted.sentence, sizeof(aborted.sentence), "%s", sentence);
}

START_TEST(a_stall_is_logged_or_ends_the_job)
{
    static const struct control_ops ops = {.abort = record_abort};
    static const struct hvd_log log = {.level = LOG_WARN, .sink = log_sink};
    struct control control = {.ops = &ops};
    struct hvd_config config = {.stall_abort_us = 1};
    const struct backend_env env = {.config = &config, .log = &log, .peer_table = &peer_table};
    struct failure failure = {0};
    failure_init(&failure, &control, &env);

    stall_inspector_report(&failure, &decision);
    ck_assert_int_eq(line_level, LOG_WARN);
    ck_assert_mem_eq(line, "stall: ", 7);
    ck_assert_str_eq(line + 7, report);
    ck_assert_int_eq(aborted.count, 0);

    line[0] = 0;
    decision.must_abort = true;
    stall_inspector_report(&failure, &decision);
    ck_assert_str_eq(line, "");
    ck_assert_int_eq(aborted.count, 1);
    ck_assert_int_eq(aborted.status, HVD_ERR_TIMEOUT);
    ck_assert_int_eq(aborted.rank, 1);
    ck_assert_mem_eq(aborted.sentence, "stall-abort: in allreduce \"w\" for 61", 33);

    config.stall_abort_us = 0;
    failure.announced = false;
    stall_inspector_report(&failure, &decision);
    ck_assert_mem_eq(aborted.sentence, "hang-abort: in allreduce \"w\" for 61", 32);
}
END_TEST

/* All children of a silent root notice it: the first rank of its own node says so, or else rank 1. */
START_TEST(one_child_of_a_silent_root_speaks_for_all)
{
    static int root_has_company[4] = {0, 0, 2, 2}, root_is_alone[4] = {0, 1, 1, 3};
    static int root_has_the_last[4] = {0, 1, 1, 0};
    static const struct {
        int *node_of_rank;
        int speaker;
    } nodes[] = {{root_has_company, 1}, {root_is_alone, 1}, {root_has_the_last, 3}};
    static const struct hvd_log log = {.level = LOG_WARN, .sink = log_sink};
    static struct stall_report silent = {
        .missing = 1, .named = 1, .ranks = {{.rank = 0, .state = STALL_SILENT}}};
    struct control control = {.parent = 0};
    const struct hvd_config config = {.stall_abort_us = 0};
    decision.stall = &silent;
    for (int rank = 1; rank < 4; rank++) {
        const struct peer_table own = {
            .rank = rank, .size = 4, .peers = peers, .node_of_rank = nodes[_i].node_of_rank};
        const struct backend_env env = {.config = &config, .log = &log, .peer_table = &own};
        struct failure failure = {0};
        failure_init(&failure, &control, &env);
        line[0] = 0;
        stall_inspector_report(&failure, &decision);
        ck_assert_msg((line[0] != 0) == (rank == nodes[_i].speaker), "rank %d says \"%s\"", rank, line);
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("stall_inspector");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, each_missing_rank_is_named_with_what_it_does);
    tcase_add_test(tcase, ranks_that_count_unnamed_operations_differently_are_told);
    tcase_add_test(tcase, ranks_that_are_not_named_are_counted);
    tcase_add_test(tcase, a_text_that_does_not_fit_says_so);
    tcase_add_test(tcase, a_stall_is_logged_or_ends_the_job);
    tcase_add_loop_test(tcase, one_child_of_a_silent_root_speaks_for_all, 0, 3);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("stall_inspector", fill);
}
