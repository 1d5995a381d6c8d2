/* test_failure.c: how one rank learns that the job cannot go on, tells the others, and ends its process. */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "flow/failure.h"
#include "net/peer_table.h"

#define SECOND INT64_C(1000000)

/* A control tree that notes what is told, and delivers what the test puts there. */
static struct {
    struct control control;
    int aborts, status, rank;
    char sentence[400];
    int messages; /* that wait to be received */
} fake;

static struct peer peers[3] = {{.host = "n1"}, {.host = "n2"}, {.host = "n3"}};
static struct peer_table peer_table = {.rank = 1, .size = 3, .peers = peers};
static struct hvd_config config;
static char logged[400];
static volatile sig_atomic_t terms;

static void on_term(int number)
{
    (void)number;
    terms++;
}

static void note_line(void *arg, enum log_level level, const char *component, const char *line)
{
    (void)arg;
    (void)level;
    snprintf(logged, sizeof(logged), "%s: %s", component, line);
}

static void fake_abort(struct control *control, int status, int rank, const char *sentence)
{
    ck_assert_ptr_eq(control, &fake.control);
    fake.aborts++;
    fake.status = status;
    fake.rank = rank;
    snprintf(fake.sentence, sizeof(fake.sentence), "%s", sentence);
}

static int fake_receive(struct control *control, struct control_event *event, struct hvd_error *err)
{
    (void)err;
    ck_assert_ptr_eq(control, &fake.control);
    if (fake.messages == 0)
        return HVD_IN_PROGRESS;
    fake.messages--;
    *event = (struct control_event){.kind = CONTROL_MESSAGE};
    return HVD_OK;
}

static const struct control_ops fake_ops = {.name = "fake", .receive = fake_receive, .abort = fake_abort};
static const struct hvd_log note_log = {.level = LOG_INFO, .sink = note_line};
static const struct backend_env env = {.config = &config, .log = &note_log, .peer_table = &peer_table};
static struct failure failure;

static void begin(void)
{
    memset(&fake, 0, sizeof(fake));
    fake.control = (struct control){.ops = &fake_ops, .rank = 1, .size = 3, .parent = 0};
    config.kill_wait_us = 0;
    logged[0] = 0;
    failure = (struct failure){.announced = false};
    failure_init(&failure, &fake.control, &env);
}

static void suspect(int rank, const char *sentence)
{
    struct hvd_error why;
    error_set(&why, HVD_ERR_RANK_LOST, "%s", sentence);
    failure_suspect(&failure, rank, &why);
}

static void accept_loss(void)
{
    const struct control_event event = {
        .kind = CONTROL_ABORT, .status = HVD_ERR_RANK_LOST, .rank = 2, .sentence = "rank 2 (n3) was lost"};
    failure_accept(&failure, &event);
}

START_TEST(nothing_is_wrong_at_first)
{
    ck_assert_int_eq(failure_status(&failure), HVD_OK);
    ck_assert(!failure_is_suspected(&failure));
    ck_assert(!failure_check_suspicion(&failure));
    ck_assert_int_eq(failure_deadline(&failure), INT64_MAX);
    ck_assert(!failure_round(&failure));
    ck_assert_int_eq(fake.aborts, 0);
}
END_TEST

START_TEST(only_the_first_announcement_counts)
{
    failure_announce(&failure, HVD_ERR_RANK_LOST, 2, "rank 2 was lost");
    failure_announce(&failure, HVD_ERR_TIMEOUT, 0, "something that follows from it");
    failure_announce_own(&failure, HVD_ERR_SYSTEM, "neither does this");
    ck_assert_int_eq(fake.aborts, 1);
    ck_assert_int_eq(fake.rank, 2);
    ck_assert_int_eq(fake.status, HVD_ERR_RANK_LOST);
    ck_assert_str_eq(fake.sentence, "rank 2 was lost");
    /* it holds only once the abort has come back */
    ck_assert_int_eq(failure_status(&failure), HVD_OK);
}
END_TEST

START_TEST(an_error_of_its_own_names_this_rank)
{
    failure_announce_own(&failure, HVD_ERR_NO_MEMORY, "no memory for 8 bytes");
    ck_assert_int_eq(fake.rank, 1);
    ck_assert_int_eq(fake.status, HVD_ERR_NO_MEMORY);
    ck_assert_str_eq(fake.sentence, "rank 1 (n2) cannot go on: no memory for 8 bytes");
}
END_TEST

START_TEST(a_suspicion_is_held_back_for_a_second)
{
    int64_t now = clock_us();
    suspect(2, "the connection with rank 2 broke");
    ck_assert(failure_is_suspected(&failure));
    ck_assert_int_ge(failure_deadline(&failure), now + SECOND);
    ck_assert_int_le(failure_deadline(&failure), clock_us() + SECOND);
    ck_assert(!failure_check_suspicion(&failure));
    ck_assert_int_eq(fake.aborts, 0);
    failure.suspect_at_us = clock_us() - 1; /* its time has come */
    ck_assert(failure_check_suspicion(&failure));
    ck_assert(!failure_is_suspected(&failure));
    ck_assert(!failure_check_suspicion(&failure));
    ck_assert_int_eq(fake.aborts, 1);
    ck_assert_int_eq(fake.rank, 2);
    ck_assert_int_eq(fake.status, HVD_ERR_RANK_LOST);
    ck_assert_str_eq(fake.sentence, "the connection with rank 2 broke");
}
END_TEST

START_TEST(what_the_control_tree_reports_settles_a_suspicion)
{
    suspect(0, "the connection with rank 0 broke");
    accept_loss();
    ck_assert(!failure_is_suspected(&failure));
    ck_assert(!failure_check_suspicion(&failure));
    ck_assert_int_eq(fake.aborts, 0);
    ck_assert_int_eq(failure_status(&failure), HVD_ERR_RANK_LOST);
    ck_assert_str_eq(failure.reason.text, "rank 2 (n3) was lost");
    ck_assert_str_eq(logged, "job: rank 2 (n3) was lost");
}
END_TEST

START_TEST(without_kill_wait_the_process_stays)
{
    accept_loss();
    ck_assert_int_eq(failure_deadline(&failure), INT64_MAX);
    ck_assert(!failure_round(&failure));
}
END_TEST

START_TEST(messages_are_still_taken_after_a_failure)
{
    accept_loss();
    fake.messages = 2;
    ck_assert(failure_round(&failure));
    ck_assert(failure_round(&failure));
    ck_assert(!failure_round(&failure));
}
END_TEST

START_TEST(kill_wait_ends_the_process_first_with_sigterm)
{
    struct sigaction action = {.sa_handler = on_term};
    int64_t now = clock_us();
    config.kill_wait_us = 30 * SECOND;
    sigaction(SIGTERM, &action, NULL);
    accept_loss();
    ck_assert_int_ge(failure_deadline(&failure), now + 30 * SECOND);
    ck_assert_int_le(failure_deadline(&failure), clock_us() + 30 * SECOND);
    failure_round(&failure);
    ck_assert_int_eq(terms, 0);
    failure.end.at_us = clock_us() - 1;
    failure_round(&failure);
    ck_assert_int_eq(terms, 1);
    ck_assert_ptr_nonnull(strstr(logged, "ending this process with signal 15"));
    /* the program has a while to end itself */
    ck_assert_int_gt(failure_deadline(&failure), clock_us() + SECOND);
    failure_round(&failure);
    ck_assert_int_eq(terms, 1);
    ck_assert_int_eq(failure.end.signal_number, SIGKILL);
}
END_TEST

START_TEST(a_process_that_ignores_sigterm_is_killed)
{
    signal(SIGTERM, SIG_IGN);
    config.kill_wait_us = SECOND;
    accept_loss();
    failure.end.at_us = clock_us() - 1;
    failure_round(&failure);
    failure.end.at_us = clock_us() - 1;
    failure_round(&failure);
    ck_abort_msg("this process should have been killed");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("failure");
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, nothing_is_wrong_at_first);
    tcase_add_test(tcase, only_the_first_announcement_counts);
    tcase_add_test(tcase, an_error_of_its_own_names_this_rank);
    tcase_add_test(tcase, a_suspicion_is_held_back_for_a_second);
    tcase_add_test(tcase, what_the_control_tree_reports_settles_a_suspicion);
    tcase_add_test(tcase, without_kill_wait_the_process_stays);
    tcase_add_test(tcase, messages_are_still_taken_after_a_failure);
    tcase_add_test(tcase, kill_wait_ends_the_process_first_with_sigterm);
    tcase_add_test_raise_signal(tcase, a_process_that_ignores_sigterm_is_killed, SIGKILL);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("failure", fill);
}
