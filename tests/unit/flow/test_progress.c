/* test_progress.c: who drives: callers that wait, hvd's own thread, and nobody's work forgotten. */
#include "config.h"
#include "unit.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/progress.h"

#define THINGS 8

/* What is driven: things that are done in the round after they were asked for. */
static struct {
    _Atomic bool asked[THINGS], done[THINGS];
    _Atomic bool armed, mine_in_round, busy;
    _Atomic int armings, rounds, armings_before;
    _Atomic int64_t slept_at_us; /* somebody has, first after so many armings */
    _Atomic int policy;          /* of who did the last thing */
    /* something that is only polled for: begun where a test says, over after some rounds */
    _Atomic bool begins_with_a_thing, begins_when_armed, poll_done;
    _Atomic int polls, polls_left;
    /* the thread does nothing before a caller waits, and gives the progress only when that one has left */
    _Atomic bool holds_back, is_held_back, caller_left;
    _Atomic bool has_sockets, has_woken;
    _Atomic int kicks;
    _Atomic int64_t deadline_us;
    int epoll_fd, wakeup;
    struct progress *progress;
} job;

static bool job_round(void *arg)
{
    bool moved = false;
    (void)arg;
    atomic_fetch_add(&job.rounds, 1);
    while (atomic_load(&job.holds_back) && atomic_load(&job.kicks) == 0) {
        atomic_store(&job.is_held_back, true);
        sched_yield();
    }
    for (int i = 0; i < THINGS; i++) {
        if (atomic_exchange(&job.asked[i], false)) {
            atomic_store(&job.mine_in_round, progress_is_driver(job.progress));
            atomic_store(&job.policy, sched_getscheduler(0));
            atomic_store(&job.done[i], true);
            moved = true;
            if (atomic_exchange(&job.begins_with_a_thing, false))
                atomic_store(&job.polls_left, atomic_load(&job.polls));
        }
    }
    if (atomic_load(&job.armed) && atomic_exchange(&job.begins_when_armed, false))
        atomic_store(&job.polls_left, atomic_load(&job.polls));
    else if (atomic_load(&job.polls_left) > 0 && atomic_fetch_sub(&job.polls_left, 1) == 1)
        atomic_store(&job.poll_done, true);
    if (moved && !atomic_load(&job.holds_back))
        progress_notify(job.progress);
    return moved;
}

static void job_arm(void *arg, bool armed)
{
    (void)arg;
    atomic_store(&job.armed, armed);
    if (armed && atomic_fetch_add(&job.armings, 1) == atomic_load(&job.armings_before))
        atomic_store(&job.slept_at_us, clock_us());
}

static void job_kick(void *arg)
{
    (void)arg;
    if (atomic_exchange(&job.armed, false))
        eventfd_write(job.wakeup, 1);
    else
        atomic_fetch_add(&job.kicks, 1);
}

static bool job_must_poll(void *arg)
{
    (void)arg;
    return atomic_load(&job.polls_left) > 0;
}

static bool job_is_busy(void *arg)
{
    (void)arg;
    return atomic_load(&job.busy);
}

static void job_drained(void *arg, bool any)
{
    (void)arg;
    (void)any;
}

static bool job_has_sockets(void *arg)
{
    (void)arg;
    return atomic_load(&job.has_sockets);
}

static bool job_has_woken(void *arg)
{
    (void)arg;
    return atomic_exchange(&job.has_woken, false);
}

static int64_t job_deadline(void *arg)
{
    (void)arg;
    if (atomic_load(&job.polls_left) > 0 && atomic_exchange(&job.holds_back, false)) {
        progress_notify(job.progress);
        while (!atomic_load(&job.caller_left))
            sched_yield();
    }
    return atomic_load(&job.deadline_us);
}

static bool is_done(void *arg)
{
    return atomic_load((_Atomic bool *)arg);
}

static void begin_with(struct wait_policy wait_policy)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    atomic_store(&job.deadline_us, INT64_MAX);
    atomic_store(&job.polls, 100);
    job.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    job.wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_eq(epoll_ctl(job.epoll_fd, EPOLL_CTL_ADD, job.wakeup, &event), 0);
    struct progress_work work = {.round = job_round,
                                 .arm = job_arm,
                                 .kick = job_kick,
                                 .must_poll = job_must_poll,
                                 .is_busy = job_is_busy,
                                 .drained = job_drained,
                                 .has_sockets = job_has_sockets,
                                 .has_woken = job_has_woken,
                                 .deadline = job_deadline,
                                 .epoll_fd = job.epoll_fd,
                                 .wait_policy = wait_policy};
    ck_assert_int_eq(progress_create(&job.progress, &work, NULL), HVD_OK);
}

static void begin(void)
{
    begin_with((struct wait_policy){.spin_us = 0});
}

static void end(void)
{
    progress_destroy(job.progress);
    close(job.wakeup);
    close(job.epoll_fd);
}

/* Until somebody has gone to sleep once more than [armings] times; Check's time-out bounds it. */
static void wait_for_sleeper(int armings)
{
    while (atomic_load(&job.armings) <= armings)
        sched_yield();
}

static void *wait_for_thing(void *arg)
{
    progress_drive(job.progress, is_done, arg);
    return NULL;
}

START_TEST(what_nobody_waits_for_is_done_by_the_thread)
{
    wait_for_sleeper(0);
    for (int i = 0; i < THINGS; i++) {
        atomic_store(&job.asked[i], true);
        progress_kick(job.progress);
        while (!atomic_load(&job.done[i]))
            sched_yield();
    }
}
END_TEST

START_TEST(a_waiting_caller_drives_without_a_kick)
{
    wait_for_sleeper(0);
    for (int i = 0; i < THINGS; i++) {
        atomic_store(&job.asked[i], true);
        progress_drive(job.progress, is_done, &job.done[i]);
    }
    ck_assert(atomic_load(&job.mine_in_round));
    ck_assert(!progress_is_driver(job.progress));
}
END_TEST

/* One caller drives and sleeps, because what it waits for is not there yet. Another hands something in
 * without waking anybody, as it would drive itself: the sleeper must take it up. */
START_TEST(a_second_caller_wakes_the_one_that_drives)
{
    pthread_t sleeper;
    wait_for_sleeper(0);
    int armings = atomic_load(&job.armings);
    pthread_create(&sleeper, NULL, wait_for_thing, &job.done[0]);
    wait_for_sleeper(armings);
    for (int i = 1; i < THINGS; i++) {
        atomic_store(&job.asked[i], true);
        progress_drive(job.progress, is_done, &job.done[i]);
    }
    atomic_store(&job.asked[0], true);
    progress_kick(job.progress);
    pthread_join(sleeper, NULL);
}
END_TEST

/* A caller's own operation is done, another one is still polled for: the thread must take that up. */
START_TEST(what_is_polled_for_goes_on_when_a_caller_leaves)
{
    wait_for_sleeper(0);
    atomic_store(&job.begins_with_a_thing, true);
    atomic_store(&job.asked[0], true);
    progress_drive(job.progress, is_done, &job.done[0]);
    while (!atomic_load(&job.poll_done))
        sched_yield();
}
END_TEST

START_TEST(what_is_polled_for_may_begin_as_the_thread_goes_to_sleep)
{
    wait_for_sleeper(0);
    atomic_store(&job.begins_when_armed, true);
    atomic_store(&job.asked[0], true);
    progress_kick(job.progress);
    while (!atomic_load(&job.poll_done))
        sched_yield();
}
END_TEST

/* The sleeping thread does not know of a deadline that a caller has found. */
START_TEST(a_deadline_outlives_the_caller_that_found_it)
{
    wait_for_sleeper(0);
    atomic_store(&job.asked[0], true);
    atomic_store(&job.deadline_us, clock_us() + 100000);
    progress_drive(job.progress, is_done, &job.done[0]);
    atomic_store(&job.asked[1], true);
    while (!atomic_load(&job.done[1]))
        sched_yield();
    atomic_store(&job.deadline_us, INT64_MAX);
}
END_TEST

/* Nobody does what these callers wait for: one drives, and the other waits while it does. */
static void *wait_in_vain(void *arg)
{
    int64_t until_us = clock_us() + 20000;
    progress_drive_until(job.progress, is_done, arg, until_us);
    ck_assert(clock_us() >= until_us);
    return NULL;
}

START_TEST(a_wait_ends_at_its_time)
{
    static const int64_t spins_us[] = {0, 50, INT64_MAX};
    begin_with((struct wait_policy){.spin_us = spins_us[_i]});
    pthread_t other;
    pthread_create(&other, NULL, wait_in_vain, &job.done[1]);
    wait_in_vain(&job.done[0]);
    pthread_join(other, NULL);
    ck_assert(!progress_is_driver(job.progress));
    atomic_store(&job.asked[0], true); /* and the next wait finds everything as it was */
    progress_drive_until(job.progress, is_done, &job.done[0], INT64_MAX);
    end();
}
END_TEST

static void *ask_and_wait(void *arg)
{
    atomic_store(&job.asked[(_Atomic bool *)arg - job.done], true);
    progress_drive(job.progress, is_done, arg);
    return NULL;
}

START_TEST(many_callers_all_return)
{
    for (int round = 0; round < 50; round++) {
        pthread_t callers[THINGS];
        for (int i = 0; i < THINGS; i++) {
            atomic_store(&job.done[i], false);
        }
        for (int i = 0; i < THINGS; i++)
            pthread_create(&callers[i], NULL, ask_and_wait, &job.done[i]);
        for (int i = 0; i < THINGS; i++)
            pthread_join(callers[i], NULL);
    }
}
END_TEST

/* ---- Patience ----------------------------------------------------------------------------------- */

#define PATIENT_ROUNDS 2000 /* of one that sleeps this late: it does not */

static const struct {
    struct wait_policy wait_policy;
    bool sleeps;
    int rounds; /* that nothing comes of before it sleeps, at most */
} patiences[] = {
    {{.spin_us = 0}, true, 1},
    {{.spin_us = 0, .oversubscribed = true}, true, 1},
    {{.spin_us = 50, .oversubscribed = true}, true, 20},
    {{.spin_us = 1}, true, PATIENT_ROUNDS},
    {{.spin_us = INT64_MAX}, false, 0},
    {{.spin_us = INT64_MAX, .oversubscribed = true}, false, 0},
};

/* Until it sleeps, or has looked so often that it will not. Returns how often it looked. */
static int count_looks(int armings, int rounds)
{
    int looks = 0;
    while (atomic_load(&job.armings) == armings && looks < PATIENT_ROUNDS) {
        sched_yield();
        looks = atomic_load(&job.rounds) - rounds;
    }
    return looks;
}

/* Three rounds more: the one that did something or found it, and the last look of one that sleeps, now and as
 * the thread went to sleep before. */
static void expect_patience(int index, int armings, int looks)
{
    bool slept = atomic_load(&job.armings) > armings;
    ck_assert(slept == patiences[index].sleeps);
    if (slept)
        ck_assert_int_le(looks, patiences[index].rounds + 3);
}

START_TEST(a_caller_has_as_much_patience_as_it_is_told)
{
    pthread_t caller;
    begin_with(patiences[_i].wait_policy);
    wait_for_sleeper(0);
    int armings = atomic_load(&job.armings), rounds = atomic_load(&job.rounds);
    pthread_create(&caller, NULL, wait_for_thing, &job.done[0]);
    expect_patience(_i, armings, count_looks(armings, rounds));
    atomic_store(&job.asked[0], true);
    progress_kick(job.progress);
    pthread_join(caller, NULL);
    end();
}
END_TEST

/* While there is something on its way: an idle job always sleeps. */
START_TEST(the_thread_has_as_much_patience_as_it_is_told)
{
    begin_with(patiences[_i].wait_policy);
    wait_for_sleeper(0);
    int armings = atomic_load(&job.armings), rounds = atomic_load(&job.rounds);
    atomic_store(&job.busy, true);
    atomic_store(&job.asked[0], true);
    progress_kick(job.progress);
    expect_patience(_i, armings, count_looks(armings, rounds));
    atomic_store(&job.busy, false);
    wait_for_sleeper(armings);
    ck_assert(atomic_load(&job.done[0]));
    end();
}
END_TEST

/* In place of the C library's. */
static _Thread_local int yields;

#pragma GCC visibility push(default)
int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}
#pragma GCC visibility pop

static bool has_looked_often(void *arg)
{
    int *looks_left = arg;
    return --*looks_left < 0;
}

/* Let a caller poll. It looks twice for each poll. Returns how often it has yielded its core. */
static int yields_in_polls(int polls)
{
    int looks_left = 2 * polls;
    yields = 0;
    progress_drive(job.progress, has_looked_often, &looks_left);
    return yields;
}

START_TEST(a_caller_yields_its_core_sooner_where_sockets_are_waited_for)
{
    begin_with((struct wait_policy){.spin_us = INT64_MAX});
    wait_for_sleeper(0);
    ck_assert_int_eq(yields_in_polls(30), 0);
    ck_assert_int_gt(yields_in_polls(100), 0);
    atomic_store(&job.has_sockets, true);
    ck_assert_int_gt(yields_in_polls(30), 0);
    end();
}
END_TEST

static bool never(void *arg)
{
    (void)arg;
    return false;
}

#define SHORT_US 10
#define LONG_US  100

/* Whom it has woken needs so long before it can answer. */
START_TEST(a_caller_that_has_woken_another_rank_is_more_patient)
{
    begin_with((struct wait_policy){.spin_us = SHORT_US});
    wait_for_sleeper(0);
    for (int i = 0; i < 3; i++) {
        atomic_store(&job.armings_before, atomic_load(&job.armings));
        int64_t begun_us = clock_us();
        atomic_store(&job.has_woken, true);
        progress_drive_until(job.progress, never, NULL, begun_us + 5000);
        ck_assert_int_gt(atomic_load(&job.slept_at_us) - begun_us, LONG_US);
        ck_assert(!atomic_load(&job.has_woken));
    }
    end();
}
END_TEST

/* Has this caller held the progress? */
static bool i_drove(void *arg)
{
    bool *drovep = arg;
    *drovep = *drovep || progress_is_driver(job.progress);
    return *drovep;
}

/* A thread that would look for news for ever makes room, and goes on when the caller has left. */
START_TEST(the_thread_makes_room_for_a_caller)
{
    begin_with((struct wait_policy){.spin_us = INT64_MAX});
    wait_for_sleeper(0);
    atomic_store(&job.busy, true);
    for (int i = 0; i < THINGS; i++) {
        atomic_store(&job.asked[i], true);
        progress_kick(job.progress);
        while (!atomic_load(&job.done[i]))
            sched_yield();
        bool drove = false;
        progress_drive(job.progress, i_drove, &drove);
    }
    atomic_store(&job.busy, false);
    end();
}
END_TEST

/* What callers wait for is done while they make the thread leave its work: it has to come back to it. */
START_TEST(the_thread_comes_back_to_what_it_left)
{
    wait_for_sleeper(0);
    for (int round = 0; round < 200; round++) {
        pthread_t caller;
        for (int i = 0; i < THINGS; i++) {
            atomic_store(&job.done[i], false);
        }
        atomic_store(&job.poll_done, false);
        atomic_store(&job.begins_with_a_thing, true);
        atomic_store(&job.asked[0], true);
        progress_kick(job.progress);
        pthread_create(&caller, NULL, wait_for_thing, &job.done[0]);
        while (!atomic_load(&job.poll_done))
            sched_yield();
        pthread_join(caller, NULL);
    }
}
END_TEST

/* The thread makes room for a caller that leaves before the progress is free: nobody else comes for the rest.
 */
START_TEST(the_thread_comes_back_where_nobody_takes_its_place)
{
    pthread_t caller;
    wait_for_sleeper(0);
    atomic_store(&job.polls, 100000); /* more than it takes the caller to wait */
    atomic_store(&job.begins_with_a_thing, true);
    atomic_store(&job.holds_back, true);
    atomic_store(&job.asked[0], true);
    progress_kick(job.progress);
    while (!atomic_load(&job.is_held_back))
        sched_yield();
    pthread_create(&caller, NULL, wait_for_thing, &job.done[0]);
    pthread_join(caller, NULL);
    atomic_store(&job.caller_left, true);
    while (!atomic_load(&job.poll_done))
        sched_yield();
}
END_TEST

/* With a core to spare it is scheduled as the program is. */
START_TEST(the_thread_takes_no_core_from_callers_where_cores_are_few)
{
    bool no_spare_core = _i == 1;
    begin_with((struct wait_policy){.spin_us = 50, .no_spare_core = no_spare_core});
    wait_for_sleeper(0);
    atomic_store(&job.asked[0], true);
    progress_kick(job.progress);
    while (!atomic_load(&job.done[0]))
        sched_yield();
    ck_assert_int_eq(atomic_load(&job.policy), no_spare_core ? SCHED_BATCH : sched_getscheduler(0));
    end();
}
END_TEST

/* The thread is woken while a caller drives, and finds nothing to do: it has to hear of what comes next. */
START_TEST(a_kick_while_a_caller_leaves_is_not_forgotten)
{
    wait_for_sleeper(0);
    for (int round = 0; round < 500; round++) {
        pthread_t caller;
        for (int i = 0; i < 2; i++) {
            atomic_store(&job.done[i], false);
        }
        pthread_create(&caller, NULL, ask_and_wait, &job.done[0]);
        atomic_store(&job.asked[1], true);
        progress_kick(job.progress);
        while (!atomic_load(&job.done[1]))
            sched_yield();
        pthread_join(caller, NULL);
    }
}
END_TEST

/* hvd's thread: the last one of this process. */
static int thread_id(void)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        int id = (int)strtol(entry->d_name, NULL, 10);
        if (id != 0 && id != getpid())
            found = id;
    }
    closedir(tasks);
    ck_assert_int_ne(found, 0);
    return found;
}

/* How often it has gone to sleep. */
static long sleeps_of(int thread)
{
    char path[64], line[256];
    long count = -1;
    snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    while (count < 0 && fgets(line, sizeof(line), file) != NULL)
        sscanf(line, "voluntary_ctxt_switches: %ld", &count);
    fclose(file);
    ck_assert_int_ge(count, 0);
    return count;
}

/* An operation during which hvd's thread is woken. */
struct op {
    int thread;
    bool woke;
};

static bool wake_thread(void *arg)
{
    struct op *op = arg;
    if (!progress_is_driver(job.progress))
        return op->woke;
    long before = sleeps_of(op->thread);
    eventfd_write(job.wakeup, 1);
    for (int i = 0; i < 200 && sleeps_of(op->thread) == before; i++) /* it may have been woken before that */
        sched_yield();
    op->woke = true;
    return true;
}

/* It goes back to sleep while a caller drives, and has to hear of what comes when nobody does. */
START_TEST(the_thread_sleeps_on_while_a_caller_drives)
{
    wait_for_sleeper(0);
    struct op op = {.thread = thread_id()};
    for (int round = 0; round < 100; round++) {
        op.woke = false;
        progress_drive(job.progress, wake_thread, &op);
        atomic_store(&job.done[0], false);
        atomic_store(&job.asked[0], true);
        progress_kick(job.progress);
        while (!atomic_load(&job.done[0]))
            sched_yield();
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("progress");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, what_nobody_waits_for_is_done_by_the_thread);
    tcase_add_test(tcase, a_waiting_caller_drives_without_a_kick);
    tcase_add_test(tcase, a_second_caller_wakes_the_one_that_drives);
    tcase_add_test(tcase, what_is_polled_for_goes_on_when_a_caller_leaves);
    tcase_add_test(tcase, what_is_polled_for_may_begin_as_the_thread_goes_to_sleep);
    tcase_add_test(tcase, a_deadline_outlives_the_caller_that_found_it);
    tcase_add_test(tcase, many_callers_all_return);
    tcase_add_test(tcase, the_thread_sleeps_on_while_a_caller_drives);
    tcase_add_test(tcase, a_kick_while_a_caller_leaves_is_not_forgotten);
    tcase_add_test(tcase, the_thread_comes_back_to_what_it_left);
    tcase_add_test(tcase, the_thread_comes_back_where_nobody_takes_its_place);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("wait_policy");
    tcase_set_timeout(tcase, 20);
    int count = (int)(sizeof(patiences) / sizeof(patiences[0]));
    tcase_add_loop_test(tcase, a_caller_has_as_much_patience_as_it_is_told, 0, count);
    tcase_add_loop_test(tcase, the_thread_has_as_much_patience_as_it_is_told, 0, count);
    tcase_add_loop_test(tcase, a_wait_ends_at_its_time, 0, 3);
    tcase_add_test(tcase, a_caller_yields_its_core_sooner_where_sockets_are_waited_for);
    tcase_add_test(tcase, a_caller_that_has_woken_another_rank_is_more_patient);
    tcase_add_test(tcase, the_thread_makes_room_for_a_caller);
    tcase_add_loop_test(tcase, the_thread_takes_no_core_from_callers_where_cores_are_few, 0, 2);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("progress", fill);
}
