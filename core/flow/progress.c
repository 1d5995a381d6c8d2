/* progress.c: which thread drives the loop. */
#include "config.h"
#include "flow/progress.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/descriptors.h"
#include "base/stack.h"

struct progress {
    struct progress_work work;
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* for callers: there is no driver any more, or an operation is done */
    pthread_cond_t released; /* for hvd's thread, which does not care about operations: there is no driver */
    bool has_driver;
    _Atomic int waiters;         /* callers that wait while another thread drives */
    _Atomic bool thread_blocked; /* hvd's thread waits for [released] */
    _Atomic bool thread_masked;  /* it sleeps without epoll_fd, until the caller that drives has stopped */
    bool thread_overslept;       /* it was woken so by its time */
    pthread_t thread;
    bool thread_started;
    _Atomic bool stopping;
    _Atomic bool driver_valid; /* [driver] is valid */
    _Atomic pthread_t driver;
    int outer_fd; /* what hvd's thread sleeps on: work.epoll_fd, which callers can mask, and stop_fd */
    int stop_fd;
    struct descriptors_guard guard;
    _Atomic bool closed;         /* the program has closed hvd's descriptors; the driver sets it */
    _Atomic int64_t wakes_at_us; /* when hvd's thread wakes without an event */
};

/* Polls before the driver begins to yield its core after each one. A rank that works on another core is done
 * by then, although its answer may take a microsecond from core to core; one that is not done may be waiting
 * for this core. Where sockets are waited for, the threads that move their bytes soon need it. */
#define SPINS_BEFORE_YIELD         64
#define SPINS_BEFORE_YIELD_SOCKETS 8

/* Polls before the driver sleeps where ranks share cores; it yields to the other ranks after each. */
#define OVERSUBSCRIBED_SPINS 8

bool progress_is_driver(const struct progress *progress)
{
    return atomic_load_explicit(&progress->driver_valid, memory_order_acquire) &&
           pthread_equal(atomic_load(&progress->driver), pthread_self()) != 0;
}

/* Does hvd's thread wake when epoll_fd becomes readable? */
static void expose_to_thread(struct progress *progress, bool visible)
{
    struct epoll_event event = {.events = visible ? EPOLLIN : 0};
    if (progress->closed)
        return;
    epoll_ctl(progress->outer_fd, EPOLL_CTL_MOD, progress->work.epoll_fd, &event);
}

/* While a caller drives, so that hvd's thread does not wake for nothing. */
static void mask_thread(struct progress *progress)
{
    if (!progress->thread_masked)
        expose_to_thread(progress, false);
    progress->thread_masked = true;
}

/* hvd's thread was woken while a caller drives. That one does the work: before it stops driving it polls
 * everything. Waiting until it stops would have the thread woken at each end of an operation, mostly too
 * late, as the caller drives the next one by then. */
static void leave_to_caller_locked(struct progress *progress)
{
    mask_thread(progress);
    if (progress->wakes_at_us <= clock_us()) {
        progress->thread_overslept = true;
        progress->wakes_at_us = INT64_MAX;
    }
}

/* From here on every event must wake it. */
static void unmask_thread_locked(struct progress *progress)
{
    progress->thread_masked = false;
    expose_to_thread(progress, true);
    if (progress->thread_overslept)
        progress->work.kick(progress->work.arg);
    progress->thread_overslept = false;
}

static void acquire_locked(struct progress *progress)
{
    progress->has_driver = true;
    atomic_store(&progress->driver, pthread_self());
    atomic_store_explicit(&progress->driver_valid, true, memory_order_release);
}

static void release_locked(struct progress *progress)
{
    atomic_store_explicit(&progress->driver_valid, false, memory_order_release);
    progress->has_driver = false;
    if (progress->thread_masked)
        unmask_thread_locked(progress);
    if (progress->waiters > 0)
        pthread_cond_broadcast(&progress->changed);
    if (progress->thread_blocked)
        pthread_cond_signal(&progress->released);
}

void progress_notify(struct progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    if (progress->waiters > 0)
        pthread_cond_broadcast(&progress->changed);
    pthread_mutex_unlock(&progress->lock);
}

void progress_kick(struct progress *progress)
{
    progress->work.kick(progress->work.arg);
}

/* A caller that sleeps looks this often whether the program has closed the descriptors that would wake it.
 * Without them, drivers poll. */
#define LOOK_MS 1000
#define POLL_MS 5

/* The driver is about to sleep, or has polled for a while. */
static void check_descriptors(struct progress *progress)
{
    if (progress->closed || descriptors_guard_holds(&progress->guard))
        return;
    progress->closed = true;
    progress->work.closed(progress->work.arg);
}

/* Take the pending events. They are not looked at: the next round polls everything. */
static void drain_events(const struct progress *progress, int timeout_ms)
{
    struct epoll_event events[16];
    int count = 0;
    if (progress->closed)
        poll(NULL, 0, timeout_ms < 0 || timeout_ms > POLL_MS ? POLL_MS : timeout_ms);
    else
        count = epoll_wait(progress->work.epoll_fd, events, sizeof(events) / sizeof(events[0]), timeout_ms);
    progress->work.drained(progress->work.arg, count > 0);
}

/* Run rounds until one does nothing. */
static void run_until_idle(const struct progress *progress)
{
    while (progress->work.round(progress->work.arg))
        continue;
}

/* Must hvd's thread stop driving? A caller that waits is awake, and can drive without being woken for it. */
static bool must_yield(const struct progress *progress)
{
    return atomic_load_explicit(&progress->waiters, memory_order_relaxed) > 0 ||
           atomic_load(&progress->stopping);
}

/* run_until_idle by hvd's thread. False: it had to stop driving before a round did nothing. */
static bool run_until_yield(const struct progress *progress, bool *movedp)
{
    *movedp = false;
    while (!must_yield(progress)) {
        if (!progress->work.round(progress->work.arg))
            return true;
        *movedp = true;
    }
    return false;
}

/* How much longer a driver polls that has woken another rank, whose answer comes after its thread has got a
 * core. If both slept too soon, each would find the other one asleep again and again. */
#define WAKE_US 150

/* How long, and how many times, a driver has polled without finding work. Zeroed: it has just found some. */
struct spin {
    int64_t since_us, wake_us;
    int64_t asked_us; /* when it last asked for the deadline */
    unsigned looks;
};

/* A driver that does not sleep, and so does not ask for the deadline before that, asks this often. */
#define ASK_US 10000

/* Where ranks share cores polls are counted and not timed: other ranks use the core in between. */
static bool should_sleep(const struct wait_policy *wait_policy, const struct spin *spin, int64_t now_us)
{
    if (wait_policy->spin_us == 0 || wait_policy->spin_us == INT64_MAX)
        return wait_policy->spin_us == 0;
    if (wait_policy->oversubscribed)
        return spin->looks > OVERSUBSCRIBED_SPINS;
    return now_us - spin->since_us >= wait_policy->spin_us + spin->wake_us;
}

/* There was nothing to do: pause before the next poll. False where it is time to sleep. */
static bool spin_once(struct progress *progress, struct spin *spin)
{
    const struct progress_work *work = &progress->work;
    const struct wait_policy *wait_policy = &work->wait_policy;
    bool polls = work->must_poll(work->arg);
    int64_t now_us = clock_us();
    if (spin->looks++ == 0) {
        spin->since_us = now_us;
        spin->wake_us = work->has_woken(work->arg) ? WAKE_US : 0;
    }
    if (!polls && should_sleep(wait_policy, spin, now_us))
        return false;
    if (now_us - spin->since_us >= ASK_US && now_us - spin->asked_us >= ASK_US) {
        spin->asked_us = now_us;
        check_descriptors(progress);
        work->deadline(work->arg); /* the round looks at the clock from then on */
    }
    unsigned spins = work->has_sockets(work->arg) ? SPINS_BEFORE_YIELD_SOCKETS : SPINS_BEFORE_YIELD;
    if (polls || wait_policy->oversubscribed || spin->looks > spins)
        sched_yield();
    else
        cpu_relax();
    return true;
}

/* When a caller stops driving: when [done] returns true, or at [until_us]; INT64_MAX: never. */
struct drive {
    bool (*done)(void *arg);
    void *arg;
    int64_t until_us;
};

static bool is_over(const struct drive *drive)
{
    return drive->done(drive->arg) || (drive->until_us != INT64_MAX && clock_us() >= drive->until_us);
}

/* Sleep until something happens, or until [until_us]. The round after arming finds what arrived before. */
static void sleep_until_event(struct progress *progress, int64_t until_us)
{
    const struct progress_work *work = &progress->work;
    check_descriptors(progress);
    work->arm(work->arg, true);
    bool moved = work->round(work->arg);
    if (!moved && !work->must_poll(work->arg)) {
        int64_t deadline_us = work->deadline(work->arg);
        int64_t wake_us = deadline_us < until_us ? deadline_us : until_us;
        int left_ms = wake_us == INT64_MAX ? LOOK_MS : clock_ms_until(wake_us);
        drain_events(progress, left_ms < LOOK_MS ? left_ms : LOOK_MS);
    }
    work->arm(work->arg, false);
}

/* A caller drives: it polls, spins and sleeps until that is over. */
static void drive_by_caller(struct progress *progress, const struct drive *drive)
{
    const struct progress_work *work = &progress->work;
    struct spin spin = {0};
    if (work->has_sockets(work->arg))
        mask_thread(progress);
    work->arm(work->arg, false);
    while (!is_over(drive)) {
        if (work->round(work->arg)) {
            spin.looks = 0;
            continue;
        }
        if (is_over(drive))
            break;
        if (spin_once(progress, &spin))
            continue;
        mask_thread(progress);
        sleep_until_event(progress, drive->until_us);
        spin.looks = 0;
    }
    /* from here on every event must wake hvd's thread */
    work->arm(work->arg, true);
    if (progress->thread_blocked || progress->thread_masked)
        drain_events(progress, 0);
    run_until_idle(progress);
    /* no descriptor will wake the thread for a transfer that must be polled, or for an earlier deadline */
    if (work->must_poll(work->arg) || work->deadline(work->arg) < progress->wakes_at_us)
        work->kick(work->arg);
}

/* Another thread drives: wait for a change, or until [until_us]. */
static void wait_for_change_locked(struct progress *progress, int64_t until_us)
{
    const struct timespec until = clock_timespec(until_us);
    progress->waiters++;
    if (until_us == INT64_MAX)
        pthread_cond_wait(&progress->changed, &progress->lock);
    else
        pthread_cond_timedwait(&progress->changed, &progress->lock, &until);
    progress->waiters--;
}

void progress_drive(struct progress *progress, bool (*done)(void *arg), void *arg)
{
    progress_drive_until(progress, done, arg, INT64_MAX);
}

void progress_drive_until(struct progress *progress, bool (*done)(void *arg), void *arg, int64_t until_us)
{
    const struct drive drive = {.done = done, .arg = arg, .until_us = until_us};
    bool kicked = false;
    pthread_mutex_lock(&progress->lock);
    while (!is_over(&drive)) {
        if (progress->has_driver) {
            /* the driver may sleep, and was not kicked for what this caller has submitted */
            if (!kicked)
                progress_kick(progress);
            kicked = true;
            wait_for_change_locked(progress, until_us);
            continue;
        }
        acquire_locked(progress);
        pthread_mutex_unlock(&progress->lock);
        drive_by_caller(progress, &drive);
        pthread_mutex_lock(&progress->lock);
        release_locked(progress);
    }
    if (!progress->has_driver && progress->thread_blocked) /* it stopped driving, perhaps for this caller */
        pthread_cond_signal(&progress->released);
    pthread_mutex_unlock(&progress->lock);
}

/* Run rounds, and spin while a transfer runs, for as long as the wait policy allows. */
static void run_and_spin(struct progress *progress)
{
    const struct progress_work *work = &progress->work;
    struct spin spin = {0};
    bool moved;
    run_until_yield(progress, &moved);
    while (!must_yield(progress) && (work->must_poll(work->arg) || work->is_busy(work->arg)) &&
           spin_once(progress, &spin)) {
        run_until_yield(progress, &moved);
        if (moved)
            spin.looks = 0;
    }
}

/* hvd's thread drives: it does everything that can be done now. False: it stopped early for a caller, which
 * may not drive after all. */
static bool drive_once(struct progress *progress)
{
    const struct progress_work *work = &progress->work;
    bool moved, settled;
    check_descriptors(progress);
    do {
        work->arm(work->arg, false);
        drain_events(progress, 0);
        run_and_spin(progress);
        work->arm(work->arg, true);
        settled = run_until_yield(progress, &moved); /* this may start a transfer that must be polled */
    } while (settled && work->must_poll(work->arg));
    return settled;
}

/* A caller that waits is about to drive; but if it need not, this thread must. */
static void wait_for_release_locked(struct progress *progress)
{
    progress->thread_blocked = true;
    pthread_cond_wait(&progress->released, &progress->lock);
    progress->thread_blocked = false;
}

/* A caller that submits wakes hvd's thread, and then mostly submits more or waits: the thread must not
 * preempt it. Where the kernel refuses, only time is lost. */
static void use_batch_scheduling(void)
{
    static const struct sched_param none;
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}

/* Until something happens. The thread can be cancelled here, and nowhere else. */
static void sleep_in_thread(const struct progress *progress)
{
    struct epoll_event event;
    int timeout_ms = progress->wakes_at_us == INT64_MAX ? -1 : clock_ms_until(progress->wakes_at_us);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    if (progress->closed)
        poll(NULL, 0, LOOK_MS);
    else
        epoll_wait(progress->outer_fd, &event, 1, timeout_ms);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static void *thread_main(void *arg)
{
    struct progress *progress = arg;
    bool work_left = false; /* it stopped driving early */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    if (progress->work.wait_policy.no_spare_core)
        use_batch_scheduling();
    pthread_mutex_lock(&progress->lock);
    while (!atomic_load(&progress->stopping)) {
        if (progress->has_driver) {
            leave_to_caller_locked(progress);
            work_left = false;
        } else if (progress->waiters > 0) {
            wait_for_release_locked(progress);
        } else {
            acquire_locked(progress);
            pthread_mutex_unlock(&progress->lock);
            work_left = !drive_once(progress);
            progress->wakes_at_us = progress->work.deadline(progress->work.arg);
            pthread_mutex_lock(&progress->lock);
            release_locked(progress);
        }
        if (work_left)
            continue;
        pthread_mutex_unlock(&progress->lock);
        sleep_in_thread(progress);
        pthread_mutex_lock(&progress->lock);
    }
    pthread_mutex_unlock(&progress->lock);
    return NULL;
}

static int start_thread(struct progress *progress, struct hvd_error *err)
{
    int rc = stack_create_thread(&progress->thread, thread_main, progress);
    if (rc != 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "cannot start hvd's thread: pthread_create returned %d", rc);
    progress->thread_started = true;
    return HVD_OK;
}

/* Waits for it may have an end, which is in the time of clock_us. */
static void init_changed(pthread_cond_t *changed)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

int progress_create(struct progress **progressp, const struct progress_work *work, struct hvd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct progress *progress = calloc(1, sizeof(*progress));
    if (progress == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the loop");
    progress->work = *work;
    progress->guard.fd = -1;
    pthread_mutex_init(&progress->lock, NULL);
    init_changed(&progress->changed);
    pthread_cond_init(&progress->released, NULL);
    progress->outer_fd = epoll_create1(EPOLL_CLOEXEC);
    progress->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = descriptors_guard_open(&progress->guard, err);
    if (rc == HVD_OK && (progress->outer_fd < 0 || progress->stop_fd < 0 ||
                         epoll_ctl(progress->outer_fd, EPOLL_CTL_ADD, work->epoll_fd, &event) < 0 ||
                         epoll_ctl(progress->outer_fd, EPOLL_CTL_ADD, progress->stop_fd, &event) < 0))
        rc = error_set_errno(err, "cannot make the descriptors that the loop sleeps on");
    *progressp = progress; /* the first round may need it */
    if (rc == HVD_OK)
        rc = start_thread(progress, err);
    if (rc != HVD_OK) {
        *progressp = NULL;
        progress_destroy(progress);
    }
    return rc;
}

void progress_after_fork(struct progress *progress)
{
    progress->thread_started = false;
    close(progress->outer_fd);
    close(progress->stop_fd);
    progress->outer_fd = progress->stop_fd = -1;
    descriptors_guard_close(&progress->guard);
}

/* No descriptor wakes the thread if the program has closed them: then it is cancelled in its sleep. */
void progress_stop(struct progress *progress)
{
    if (!progress->thread_started)
        return;
    atomic_store(&progress->stopping, true);
    if (progress_is_closed(progress))
        pthread_cancel(progress->thread);
    else
        eventfd_write(progress->stop_fd, 1);
    pthread_mutex_lock(&progress->lock);
    pthread_cond_signal(&progress->released);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    progress->thread_started = false;
}

bool progress_is_closed(const struct progress *progress)
{
    return progress->closed || !descriptors_guard_holds(&progress->guard);
}

void progress_destroy(struct progress *progress)
{
    if (progress == NULL)
        return;
    progress_stop(progress);
    descriptors_close(&progress->outer_fd);
    descriptors_close(&progress->stop_fd);
    descriptors_guard_close(&progress->guard);
    pthread_cond_destroy(&progress->changed);
    pthread_cond_destroy(&progress->released);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}
