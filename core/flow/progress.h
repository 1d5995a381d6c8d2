/* progress.h: who drives the loop. One holder at a time: a caller that waits, else a thread of hvd's own that
 * sleeps until something happens. The one object of flow that knows of threads and of sleeping. */
#ifndef FLOW_PROGRESS_H
#define FLOW_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct progress;

/* How a holder waits that finds nothing to do. */
struct wait_policy {
    int64_t spin_us;     /* it looks again for so long before it sleeps; INT64_MAX: it never sleeps */
    bool oversubscribed; /* ranks share cores: it yields its own after each look, and soon sleeps */
    bool no_spare_core;  /* there is no core to spare: the thread takes none from callers when it is woken */
};

/* What is driven. Called by the holder. */
struct progress_work {
    /* One round without waiting. Returns whether anything was done. */
    bool (*round)(void *arg);
    /* From now on arrivals and kicks must wake a sleeper of the descriptor, or need not. */
    void (*arm)(void *arg, bool armed);
    /* Another thread handed something in: wake a sleeper if armed. Any thread. */
    void (*kick)(void *arg);
    /* Something is under way that no descriptor will tell of: do not sleep. */
    bool (*must_poll)(void *arg);
    /* Others are at work on something with us: there will be news soon. */
    bool (*is_busy)(void *arg);
    /* Something else than kicks may make epoll_fd readable while it is not armed. */
    bool (*has_sockets)(void *arg);
    /* When [round] wants to be called at the latest: clock_us time, or INT64_MAX. */
    int64_t (*deadline)(void *arg);
    void *arg;
    int epoll_fd; /* what wakes a sleeper; borrowed */
    struct wait_policy wait_policy;
};

/* Starts the thread, which blocks all signals. *progressp is set before its first round; NULL on failure. */
int progress_create(struct progress **progressp, const struct progress_work *work, struct hvd_error *err);

/* Stop the thread. Nobody may be in progress_drive. NULL is fine. */
void progress_destroy(struct progress *progress);

/* In a forked child, where the thread does not exist: close descriptors and forget it. */
void progress_after_fork(struct progress *progress);

/* Drive, or let others drive, until [done] says so. [done] must be cheap and may be called by any driver's
 * thread. */
void progress_drive(struct progress *progress, bool (*done)(void *arg), void *arg);

/* Something became done: let waiting callers look. By the holder. */
void progress_notify(struct progress *progress);

/* Something was handed in. Any thread. */
void progress_kick(struct progress *progress);

/* Whether this thread is the holder right now: inside a callback. */
bool progress_is_driver(const struct progress *progress);

#endif
