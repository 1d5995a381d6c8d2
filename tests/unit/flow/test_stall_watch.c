/* test_stall_watch.c: a batch is timed by its progress, and a rank says truly how it stands with one that
 * others wait in. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "control/control.h"
#include "descs.h"
#include "flow/stall_watch.h"
#include "net/peer_table.h"

#define SECOND INT64_C(1000000)

static struct peer peers[2] = {{.host = "n1"}, {.host = "n2"}};
static const struct peer_table peer_table = {.size = 2, .peers = peers};
static const int ranks[2] = {0, 1};
static char line[2000];
static int aborts;

static void log_sink(void *arg, enum log_level level, const char *component, const char *text)
{
    (void)arg;
    (void)level;
    snprintf(line, sizeof(line), "%s: %s", component, text);
}

static void record_abort(struct control *control, int status, int rank, const char *sentence)
{
    (void)control;
    ck_assert_int_eq(status, HVD_ERR_TIMEOUT);
    ck_assert_int_eq(rank, 0);
    snprintf(line, sizeof(line), "%s", sentence);
    aborts++;
}

/* A rank alone, whose first batch is of set 0 or 1. */
static struct {
    struct control control;
    struct backend_env env;
    struct failure failure;
    struct set_registry *set_registry;
    struct batch_queue batch_queue;
    struct negotiate *negotiate;
    struct process_set sets[2];
    struct batch batch;
    struct request *request;
    struct stall_watch watch;
} job;

static const struct hvd_config no_limits;

static void begin(void)
{
    static const struct control_ops ops = {.abort = record_abort};
    static const struct hvd_log log = {.level = LOG_WARN, .sink = log_sink};
    struct desc *desc = desc_vector("w", 4);
    memset(&job, 0, sizeof(job));
    line[0] = 0;
    aborts = 0;
    job.control = (struct control){.ops = &ops, .size = 2};
    job.env = (struct backend_env){.config = &no_limits, .log = &log, .peer_table = &peer_table};
    failure_init(&job.failure, &job.control, &job.env);
    ck_assert_int_eq(set_registry_create(&job.set_registry, 0, NULL), HVD_OK);
    for (int set = 0; set < 2; set++) {
        job.sets[set].members = (struct team){.set = set, .size = 2, .ranks = ranks};
        job.sets[set].sequence = 4;
        ck_assert_int_eq(
            set_registry_add(job.set_registry, &job.sets[set].members, false, 0, &job.sets[set], NULL),
            HVD_OK);
    }
    job.request = request_create(desc);
    job.batch = (struct batch){.set = &job.sets[0], .stage = BATCH_START, .tensors = job.request->tensors};
    job.watch = (struct stall_watch){.batch_queue = &job.batch_queue,
                                     .set_registry = job.set_registry,
                                     .failure = &job.failure,
                                     .warn_us = 10 * SECOND,
                                     .abort_us = 25 * SECOND};
    desc_release(desc);
}

static void end(void)
{
    for (int set = 0; set < 2; set++)
        set_registry_remove(job.set_registry, set);
    set_registry_destroy(job.set_registry);
    request_free(job.request);
    negotiate_destroy(job.negotiate);
}

START_TEST(nothing_runs_and_nothing_wakes)
{
    ck_assert_int_eq(stall_watch_deadline(&job.watch, 5), INT64_MAX);
    job.batch_queue.first = &job.batch;
    ck_assert_int_eq(stall_watch_deadline(&job.watch, 7), 7 + 10 * SECOND);
    job.batch_queue.first = NULL;
    ck_assert_int_eq(stall_watch_deadline(&job.watch, 9), INT64_MAX);
}
END_TEST

START_TEST(a_batch_that_moves_is_timed_anew)
{
    job.batch_queue.first = &job.batch;
    for (int64_t now_us = 1; now_us < 100 * SECOND; now_us += 9 * SECOND) {
        job.batch_queue.moves++;
        ck_assert_int_eq(stall_watch_deadline(&job.watch, now_us), now_us + 10 * SECOND);
        ck_assert_int_eq(stall_watch_check(&job.watch, NULL, now_us + 9 * SECOND, NULL), HVD_OK);
    }
    ck_assert_str_eq(line, "");
}
END_TEST

/* Of a batch without a number nobody else can be asked: this rank says what it knows, again and again, and
 * ends the job in the end. */
START_TEST(a_batch_that_does_not_move_is_told_of)
{
    job.batch_queue.first = &job.batch;
    job.batch.set = NULL;
    ck_assert_int_eq(stall_watch_deadline(&job.watch, 1), 1 + 10 * SECOND);
    ck_assert_int_eq(stall_watch_check(&job.watch, NULL, 10 * SECOND, NULL), HVD_OK);
    ck_assert_str_eq(line, "");
    ck_assert_int_eq(stall_watch_check(&job.watch, NULL, 1 + 10 * SECOND, NULL), HVD_OK);
    ck_assert_str_eq(line, "stall: in allreduce \"w\", which has not moved for 10.0 s: rank 0 (n1) waits");
    ck_assert_int_eq(stall_watch_deadline(&job.watch, 1 + 10 * SECOND), 1 + 20 * SECOND);
    ck_assert_int_eq(stall_watch_check(&job.watch, NULL, 1 + 20 * SECOND, NULL), HVD_OK);
    ck_assert_int_eq(stall_watch_deadline(&job.watch, 1 + 20 * SECOND), 1 + 25 * SECOND);
    ck_assert_int_eq(aborts, 0);
    ck_assert_int_eq(stall_watch_check(&job.watch, NULL, 1 + 25 * SECOND, NULL), HVD_OK);
    ck_assert_int_eq(aborts, 1);
    ck_assert_str_eq(line,
                     "hang-abort: in allreduce \"w\", which has not moved for 25.0 s: rank 0 (n1) waits");
}
END_TEST

START_TEST(it_is_told_again_after_twice_as_long_and_anew_once_it_has_moved)
{
    static const struct {
        int at;
        bool told, moves;
    } looks[] = {{10, true, false}, {20, true, false},  {30, false, false},
                 {40, true, false}, {50, false, false}, {70, false, true},
                 {80, true, false}, {90, true, false},  {100, false, false}};
    job.batch_queue.first = &job.batch;
    job.batch.set = NULL;
    job.watch.abort_us = 0;
    stall_watch_deadline(&job.watch, 1);
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
        line[0] = 0;
        job.batch_queue.moves += looks[i].moves;
        ck_assert_int_eq(stall_watch_check(&job.watch, NULL, 1 + looks[i].at * SECOND, NULL), HVD_OK);
        ck_assert_msg((line[0] != 0) == looks[i].told, "at %d s: %s", looks[i].at, line);
    }
}
END_TEST

START_TEST(a_rank_that_was_stopped_itself_blames_nobody)
{
    job.batch_queue.first = &job.batch;
    job.batch.set = NULL;
    stall_watch_deadline(&job.watch, 1);
    stall_watch_restart(&job.watch);
    ck_assert_int_eq(stall_watch_check(&job.watch, NULL, 60 * SECOND, NULL), HVD_OK);
    ck_assert_str_eq(line, "");
    ck_assert_int_eq(stall_watch_deadline(&job.watch, 60 * SECOND), 70 * SECOND);
}
END_TEST

START_TEST(either_time_can_be_never)
{
    job.batch_queue.first = &job.batch;
    job.watch.warn_us = _i == 0 ? 0 : 10;
    job.watch.abort_us = _i == 1 ? 0 : 20;
    ck_assert_int_eq(stall_watch_deadline(&job.watch, 1), _i == 0 ? 21 : 11);
    job.watch.warn_us = job.watch.abort_us = 0;
    job.batch_queue.moves++;
    ck_assert_int_eq(stall_watch_deadline(&job.watch, 2), INT64_MAX);
}
END_TEST

static enum stall_standing standing(hvd_set set, uint64_t batch, struct stall_rank *self)
{
    *self = (struct stall_rank){.state = STALL_NOT_BEGUN, .waits_for = -1};
    return stall_watch_standing(&job.watch, set, batch, self);
}

/* Batch 4 of each set was the last to be started. */
START_TEST(a_rank_says_how_it_stands)
{
    struct stall_rank self;
    ck_assert_int_eq(standing(0, 4, &self), STANDING_PAST);
    ck_assert_int_eq(standing(0, 5, &self), STANDING_KEEPS_OTHERS);
    ck_assert_int_eq(self.state, STALL_NOT_BEGUN);
    ck_assert_int_eq(standing(7, 1, &self), STANDING_PAST); /* no such set any more */
    job.batch_queue.first = &job.batch;
    ck_assert_int_eq(standing(0, 5, &self), STANDING_MOVES);
    stall_watch_deadline(&job.watch, clock_us() - 8 * SECOND);
    job.watch.first.since_us = clock_us() - 8 * SECOND;
    ck_assert_int_eq(standing(0, 4, &self), STANDING_PAST);
    ck_assert_int_eq(standing(0, 5, &self), STANDING_WAITS);
    ck_assert_int_eq(standing(1, 5, &self), STANDING_KEEPS_OTHERS);
    ck_assert_int_eq(self.state, STALL_BEHIND);
    ck_assert_str_eq(self.last, "allreduce \"w\"");
    job.batch_queue.moves++;
    ck_assert_int_eq(standing(1, 5, &self), STANDING_MOVES);
}
END_TEST

/* Batches 3 and 4 of set 0 are in the GPU's queue. */
START_TEST(a_rank_says_how_it_stands_with_its_gpu)
{
    struct stall_rank self;
    struct batch next = job.batch;
    job.batch.stage = next.stage = BATCH_DONE;
    job.batch.number = 3;
    next.number = 4;
    job.batch.next = &next;
    job.batch_queue.launched = &job.batch;
    ck_assert_int_eq(standing(0, 2, &self), STANDING_PAST);
    ck_assert_int_eq(standing(0, 3, &self), STANDING_MOVES);
    job.watch.launched.since_us = clock_us() - 8 * SECOND;
    ck_assert_int_eq(standing(0, 3, &self), STANDING_WAITS);
    ck_assert_int_eq(standing(0, 4, &self), STANDING_KEEPS_OTHERS);
    ck_assert_int_eq(self.state, STALL_BEHIND);
    ck_assert_int_eq(standing(0, 5, &self), STANDING_KEEPS_OTHERS);
    ck_assert_int_eq(self.state, STALL_NOT_BEGUN);
    ck_assert_int_eq(standing(1, 4, &self), STANDING_PAST); /* that of another set */
    job.batch_queue.launched = &next;
    job.batch_queue.ends++;
    ck_assert_int_eq(standing(0, 3, &self), STANDING_PAST);
    ck_assert_int_eq(standing(0, 4, &self), STANDING_MOVES);
    ck_assert_int_lt(stall_watch_deadline(&job.watch, clock_us()), INT64_MAX);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("stall_watch");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, nothing_runs_and_nothing_wakes);
    tcase_add_test(tcase, a_batch_that_moves_is_timed_anew);
    tcase_add_test(tcase, a_batch_that_does_not_move_is_told_of);
    tcase_add_test(tcase, it_is_told_again_after_twice_as_long_and_anew_once_it_has_moved);
    tcase_add_test(tcase, a_rank_that_was_stopped_itself_blames_nobody);
    tcase_add_loop_test(tcase, either_time_can_be_never, 0, 2);
    tcase_add_test(tcase, a_rank_says_how_it_stands);
    tcase_add_test(tcase, a_rank_says_how_it_stands_with_its_gpu);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("stall_watch", fill);
}
