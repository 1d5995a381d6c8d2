/* progress.h: which thread drives the loop. There is one driver at a time: a caller that waits, or else hvd's
 * thread, which sleeps until something happens. Nothing else in flow/ starts threads or sleeps. */
#ifndef FLOW_PROGRESS_H
#define FLOW_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct progress;

/* How a driver waits when it finds nothing to do. */
struct wait_policy {
    int64_t spin_us;     /* how long it polls before it sleeps; INT64_MAX: it never sleeps */
    bool oversubscribed; /* ranks share cores: it yields after each poll, and sleeps soon */
    bool no_spare_core;  /* hvd's thread has no core of its own: it does not preempt callers when it wakes */
};

/* What is driven. The driver calls these, but for kick. */
struct progress_work {
    /* One round without waiting. Returns whether anything was done. */
    bool (*round)(void *arg);
    /* armed: from now on messages and kicks must make epoll_fd readable. Not armed: they need not. */
    void (*arm)(void *arg, bool armed);
    /* Another thread has submitted something: make epoll_fd readable if armed. Any thread. */
    void (*kick)(void *arg);
    /* A transfer is running whose progress makes no descriptor readable: poll, do not sleep. */
    bool (*must_poll)(void *arg);
    /* A transfer is running, so that something will happen soon. */
    bool (*is_busy)(void *arg);
    /* Events of epoll_fd were taken, if there were [any], and not looked at. */
    void (*drained)(void *arg, bool any);
    /* Sockets are in epoll_fd, which make it readable also while it is not armed. */
    bool (*has_sockets)(void *arg);
    /* Has this rank woken another one since the last call? What that one does takes longer then. */
    bool (*has_woken)(void *arg);
    /* When [round] must be called at the latest: clock_us time, or INT64_MAX. */
    int64_t (*deadline)(void *arg);
    /* The program has closed descriptors of hvd, so that no event comes any more. Called once. */
    void (*closed)(void *arg);
    void *arg;
    int epoll_fd; /* what a driver sleeps on; stays the caller's */
    struct wait_policy wait_policy;
};

/* Starts the thread, which blocks all signals. *progressp is set before its first round; NULL on failure. */
int progress_create(struct progress **progressp, const struct progress_work *work, struct hvd_error *err);

/* Stop the thread. No other thread may be in progress_drive. NULL is fine. */
void progress_destroy(struct progress *progress);

/* Has the program closed descriptors of hvd? Their numbers may be other files' by now. */
bool progress_is_closed(const struct progress *progress);

/* Stop the thread, and no more. */
void progress_stop(struct progress *progress);

/* In a forked child, which has no such thread: close the descriptors. */
void progress_after_fork(struct progress *progress);

/* Drive, or wait while another thread drives, until [done] returns true. [done] is called often, and by this
 * thread only. */
void progress_drive(struct progress *progress, bool (*done)(void *arg), void *arg);

/* The same, but at most until [until_us] in the time of clock_us; INT64_MAX: without a limit. */
void progress_drive_until(struct progress *progress, bool (*done)(void *arg), void *arg, int64_t until_us);

/* An operation is done: callers that wait test theirs again. Only the driver calls it. */
void progress_notify(struct progress *progress);

/* Something was submitted. Any thread. */
void progress_kick(struct progress *progress);

/* Is this thread the driver? Then the caller is inside a callback. */
bool progress_is_driver(const struct progress *progress);

#endif
