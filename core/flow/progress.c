/* progress.c: who drives the loop. */
#include "config.h"
#include "flow/progress.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu_relax.h"

struct baton {
    struct baton_work work;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* free again, or something became done */
    pthread_cond_t
        given; /* free again: for the thread alone, to which it is nothing that something is done */
    bool held;
    _Atomic int waiters; /* callers that the holder keeps waiting */
    _Atomic bool thread_waits;
    pthread_t thread;
    bool thread_started;
    _Atomic bool stopping;
    _Atomic bool driving;     /* [driver] is valid */
    _Atomic pthread_t driver; /* who holds it */
    int outer_fd; /* what the thread sleeps on: work.epoll_fd, which callers can hide from it, and stop_fd */
    int stop_fd;
    int64_t wakes_at_us; /* the sleeping thread, by itself; the holder's */
};

/* Look so often before yielding the core, then after each look. Whoever is at work on another core is through
 * by then; otherwise it may be waiting for this one. */
#define PAUSES 8

/* Where ranks share cores each of the others gets its turn while this one yields. */
#define CROWDED_LOOKS 8

bool baton_is_mine(const struct baton *baton)
{
    return atomic_load_explicit(&baton->driving, memory_order_acquire) &&
           pthread_equal(atomic_load(&baton->driver), pthread_self()) != 0;
}

static void take_locked(struct baton *baton)
{
    baton->held = true;
    atomic_store(&baton->driver, pthread_self());
    atomic_store_explicit(&baton->driving, true, memory_order_release);
}

static void give_locked(struct baton *baton)
{
    atomic_store_explicit(&baton->driving, false, memory_order_release);
    baton->held = false;
    if (baton->waiters > 0)
        pthread_cond_broadcast(&baton->changed);
    if (baton->thread_waits)
        pthread_cond_signal(&baton->given);
}

void baton_announce(struct baton *baton)
{
    pthread_mutex_lock(&baton->lock);
    if (baton->waiters > 0)
        pthread_cond_broadcast(&baton->changed);
    pthread_mutex_unlock(&baton->lock);
}

void baton_kick(struct baton *baton)
{
    baton->work.kick(baton->work.arg);
}

/* Whether the thread sees what happens on the descriptor. A caller that drives hides it, so that the thread
 * is not woken for nothing. */
static void show_thread(struct baton *baton, bool visible)
{
    struct epoll_event event = {.events = visible ? EPOLLIN : 0};
    epoll_ctl(baton->outer_fd, EPOLL_CTL_MOD, baton->work.epoll_fd, &event);
}

/* Take what the descriptor has to tell; what it was about is found by looking everywhere. */
static void harvest(const struct baton *baton, int timeout_ms)
{
    struct epoll_event events[16];
    epoll_wait(baton->work.epoll_fd, events, sizeof(events) / sizeof(events[0]), timeout_ms);
}

/* Go round until nothing more is to do at once. Returns whether anything was done. */
static bool work_off(const struct baton *baton)
{
    bool moved = false;
    while (baton->work.round(baton->work.arg))
        moved = true;
    return moved;
}

/* Is the thread to make room? A caller that waits is awake, and does the same without being woken for it. */
static bool must_yield(const struct baton *baton)
{
    return atomic_load_explicit(&baton->waiters, memory_order_relaxed) > 0 || atomic_load(&baton->stopping);
}

/* work_off by the thread. False: it was asked to make room before nothing was left to do. */
static bool work_off_until_asked(const struct baton *baton, bool *movedp)
{
    *movedp = false;
    while (!must_yield(baton)) {
        if (!baton->work.round(baton->work.arg))
            return true;
        *movedp = true;
    }
    return false;
}

/* Since when a holder has found nothing to do, and how often it looked. Zeroed: it has just done something.
 */
struct idling {
    int64_t since_us;
    unsigned looks;
};

/* Where ranks share cores the time that passes is others'. */
static bool has_had_enough(const struct patience *patience, const struct idling *idling, int64_t now_us)
{
    if (patience->spin_us == 0 || patience->spin_us == INT64_MAX)
        return patience->spin_us == 0;
    if (patience->crowded)
        return idling->looks > CROWDED_LOOKS;
    return now_us - idling->since_us >= patience->spin_us;
}

/* There was nothing to do: let a moment pass. False where it is time to sleep. */
static bool linger(const struct baton *baton, struct idling *idling)
{
    const struct baton_work *work = &baton->work;
    const struct patience *patience = &work->patience;
    bool polls = work->must_poll(work->arg);
    int64_t now_us = clock_us();
    if (idling->looks++ == 0)
        idling->since_us = now_us;
    if (!polls && has_had_enough(patience, idling, now_us))
        return false;
    if (polls || patience->crowded || idling->looks > PAUSES)
        sched_yield();
    else
        pause_core();
    return true;
}

/* Sleep until something happens. The caller found nothing to do; what came in before arming is found by a
 * last look. */
static void sleep_until_event(struct baton *baton)
{
    const struct baton_work *work = &baton->work;
    work->arm(work->arg, true);
    bool moved = work->round(work->arg);
    if (!moved && !work->must_poll(work->arg)) {
        int64_t deadline_us = work->deadline(work->arg);
        harvest(baton, deadline_us == INT64_MAX ? -1 : clock_ms_until(deadline_us));
    }
    work->arm(work->arg, false);
}

/* The holder's turn, for a caller: look, spin, sleep, until done. */
static void drive_until(struct baton *baton, bool (*done)(void *arg), void *done_arg)
{
    const struct baton_work *work = &baton->work;
    struct idling idling = {0};
    bool hidden = work->has_sockets(work->arg);
    if (hidden)
        show_thread(baton, false);
    work->arm(work->arg, false);
    while (!done(done_arg)) {
        if (work->round(work->arg)) {
            idling.looks = 0;
            continue;
        }
        if (done(done_arg))
            break;
        if (linger(baton, &idling))
            continue;
        if (!hidden)
            show_thread(baton, false);
        hidden = true;
        sleep_until_event(baton);
        idling.looks = 0;
    }
    /* leave the place so that the thread hears of everything from here on */
    work->arm(work->arg, true);
    if (hidden || baton->thread_waits)
        harvest(baton, 0);
    work_off(baton);
    if (hidden)
        show_thread(baton, true);
    /* of what is only polled for, and of a deadline that came up meanwhile, no descriptor will tell it */
    if (work->must_poll(work->arg) || work->deadline(work->arg) < baton->wakes_at_us)
        work->kick(work->arg);
}

void baton_drive(struct baton *baton, bool (*done)(void *arg), void *arg)
{
    bool told = false;
    pthread_mutex_lock(&baton->lock);
    while (!done(arg)) {
        if (baton->held) {
            /* whoever drives may sleep, and does not know of what this caller handed in quietly */
            if (!told)
                baton_kick(baton);
            told = true;
            baton->waiters++;
            pthread_cond_wait(&baton->changed, &baton->lock);
            baton->waiters--;
            continue;
        }
        take_locked(baton);
        pthread_mutex_unlock(&baton->lock);
        drive_until(baton, done, arg);
        pthread_mutex_lock(&baton->lock);
        give_locked(baton);
    }
    if (!baton->held && baton->thread_waits) /* it had made room, perhaps for us */
        pthread_cond_signal(&baton->given);
    pthread_mutex_unlock(&baton->lock);
}

/* Work, and wait for what others do with us, until that would take long. */
static void work_patiently(struct baton *baton)
{
    const struct baton_work *work = &baton->work;
    struct idling idling = {0};
    bool moved;
    work_off_until_asked(baton, &moved);
    while (!must_yield(baton) && (work->must_poll(work->arg) || work->is_busy(work->arg)) &&
           linger(baton, &idling)) {
        work_off_until_asked(baton, &moved);
        if (moved)
            idling.looks = 0;
    }
}

/* The thread's turn: everything that can be done now, then back to sleep. False: it made room before, and
 * whoever it made room for may not need the baton any more. */
static bool drive_once(struct baton *baton)
{
    const struct baton_work *work = &baton->work;
    bool moved, settled;
    do {
        work->arm(work->arg, false);
        harvest(baton, 0);
        work_patiently(baton);
        work->arm(work->arg, true);
        settled = work_off_until_asked(baton, &moved); /* what this begins may have to be polled for */
    } while (settled && work->must_poll(work->arg));
    return settled;
}

/* Somebody drives, and does what the thread was woken for: before he gives the baton he looks at everything,
 * and what comes after that wakes the thread again. */
static void await_free_locked(struct baton *baton)
{
    baton->thread_waits = true;
    pthread_cond_wait(&baton->given, &baton->lock);
    baton->thread_waits = false;
}

/* Who hands something in wakes the thread, and mostly hands in more or waits right after: it is not to lose
 * its core meanwhile. A refusal changes nothing but the time that it takes. */
static void be_modest(void)
{
    static const struct sched_param none;
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}

static void *thread_main(void *arg)
{
    struct baton *baton = arg;
    bool left = false; /* work, to make room */
    if (baton->work.patience.tight)
        be_modest();
    pthread_mutex_lock(&baton->lock);
    while (!atomic_load(&baton->stopping)) {
        if (baton->held || baton->waiters > 0) {
            await_free_locked(baton);
        } else {
            take_locked(baton);
            pthread_mutex_unlock(&baton->lock);
            left = !drive_once(baton);
            baton->wakes_at_us = baton->work.deadline(baton->work.arg);
            pthread_mutex_lock(&baton->lock);
            give_locked(baton);
        }
        if (left)
            continue;
        pthread_mutex_unlock(&baton->lock);
        struct epoll_event event;
        int timeout_ms = baton->wakes_at_us == INT64_MAX ? -1 : clock_ms_until(baton->wakes_at_us);
        epoll_wait(baton->outer_fd, &event, 1, timeout_ms);
        pthread_mutex_lock(&baton->lock);
    }
    pthread_mutex_unlock(&baton->lock);
    return NULL;
}

static int start_thread(struct baton *baton, struct hvd_error *err)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&baton->thread, NULL, thread_main, baton);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "cannot start hvd's thread: pthread_create returned %d", rc);
    baton->thread_started = true;
    return HVD_OK;
}

int baton_create(struct baton **batonp, const struct baton_work *work, struct hvd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct baton *baton = calloc(1, sizeof(*baton));
    if (baton == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the loop");
    baton->work = *work;
    pthread_mutex_init(&baton->lock, NULL);
    pthread_cond_init(&baton->changed, NULL);
    pthread_cond_init(&baton->given, NULL);
    baton->outer_fd = epoll_create1(EPOLL_CLOEXEC);
    baton->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = HVD_OK;
    if (baton->outer_fd < 0 || baton->stop_fd < 0 ||
        epoll_ctl(baton->outer_fd, EPOLL_CTL_ADD, work->epoll_fd, &event) < 0 ||
        epoll_ctl(baton->outer_fd, EPOLL_CTL_ADD, baton->stop_fd, &event) < 0)
        rc = error_set_errno(err, "cannot make the descriptors that the loop sleeps on");
    *batonp = baton; /* the thread's first round may want it */
    if (rc == HVD_OK)
        rc = start_thread(baton, err);
    if (rc != HVD_OK) {
        *batonp = NULL;
        baton_destroy(baton);
    }
    return rc;
}

void baton_after_fork(struct baton *baton)
{
    baton->thread_started = false;
    close(baton->outer_fd);
    close(baton->stop_fd);
    baton->outer_fd = baton->stop_fd = -1;
}

void baton_destroy(struct baton *baton)
{
    if (baton == NULL)
        return;
    if (baton->thread_started) {
        atomic_store(&baton->stopping, true);
        eventfd_write(baton->stop_fd, 1);
        pthread_mutex_lock(&baton->lock);
        pthread_cond_signal(&baton->given);
        pthread_mutex_unlock(&baton->lock);
        pthread_join(baton->thread, NULL);
    }
    if (baton->outer_fd >= 0)
        close(baton->outer_fd);
    if (baton->stop_fd >= 0)
        close(baton->stop_fd);
    pthread_cond_destroy(&baton->changed);
    pthread_cond_destroy(&baton->given);
    pthread_mutex_destroy(&baton->lock);
    free(baton);
}
