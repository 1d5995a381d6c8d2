/* signals.c: be told of fatal signals and of SIGUSR2, and let the program have them as before. */
#include "trace/signals.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* How long unwatching waits for a handler on another thread. */
#define LEAVE_US INT64_C(1000000)

static const struct watched {
    int number;
    const char *name;
    bool fatal;
} watched[] = {{SIGSEGV, "SIGSEGV", true}, {SIGBUS, "SIGBUS", true},   {SIGILL, "SIGILL", true},
               {SIGFPE, "SIGFPE", true},   {SIGABRT, "SIGABRT", true}, {SIGUSR2, "SIGUSR2", false}};

#define WATCHED_COUNT (sizeof(watched) / sizeof(watched[0]))

/* A handler is given nothing but the number of its signal, so what it needs has to be here. [old] stays after
 * unwatching: somebody may have saved our handler as the one to call after his. */
static struct {
    _Atomic(const struct signals_watcher *) watcher;
    _Atomic int inside;
    pid_t pid;
    struct sigaction old[WATCHED_COUNT];
    bool below[WATCHED_COUNT]; /* another handler was put before ours, and may call it */
} state;

static void tell(const struct watched *signal)
{
    atomic_fetch_add(&state.inside, 1);
    const struct signals_watcher *watcher = atomic_load(&state.watcher);
    if (watcher != NULL && getpid() == state.pid)
        watcher->tell(watcher->arg, signal->name, signal->fatal);
    atomic_fetch_sub(&state.inside, 1);
}

static void call_old(const struct sigaction *old, int number, siginfo_t *info, void *context)
{
    if ((old->sa_flags & SA_SIGINFO) != 0)
        old->sa_sigaction(number, info, context);
    else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
        old->sa_handler(number);
}

static void handle(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    for (size_t i = 0; i < WATCHED_COUNT; i++) {
        if (watched[i].number != number)
            continue;
        tell(&watched[i]);
        if (!watched[i].fatal) {
            call_old(&state.old[i], number, info, context);
            continue;
        }
        /* What was there before gets it next: a fault comes again when this returns, and is then where it
         * belongs, in the core too; one that was sent is sent once more. */
        sigaction(number, &state.old[i], NULL);
        if (info->si_code <= 0)
            raise(number);
    }
    errno = saved_errno;
}

static void install(size_t i)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaction(watched[i].number, NULL, &state.old[i]);
    action.sa_mask = state.old[i].sa_mask;
    sigaction(watched[i].number, &action, NULL);
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handle;
}

int signals_watch(const struct signals_watcher *watcher, struct hvd_error *err)
{
    const struct signals_watcher *nobody = NULL;
    if (!atomic_compare_exchange_strong(&state.watcher, &nobody, watcher))
        return error_set(err, HVD_ERR_STATE,
                         "signals already write the flight record of another rank of this process");
    state.pid = getpid();
    for (size_t i = 0; i < WATCHED_COUNT; i++) {
        struct sigaction now;
        sigaction(watched[i].number, NULL, &now);
        if (!is_ours(&now) && !state.below[i])
            install(i);
    }
    return HVD_OK;
}

void signals_unwatch(const struct signals_watcher *watcher)
{
    const struct signals_watcher *expected = watcher;
    if (!atomic_compare_exchange_strong(&state.watcher, &expected, NULL))
        return;
    for (size_t i = 0; i < WATCHED_COUNT; i++) {
        struct sigaction now;
        sigaction(watched[i].number, NULL, &now);
        state.below[i] = !is_ours(&now);
        if (is_ours(&now))
            sigaction(watched[i].number, &state.old[i], NULL);
    }
    int64_t deadline_us = clock_us() + LEAVE_US;
    while (atomic_load(&state.inside) > 0 && clock_us() < deadline_us)
        sched_yield();
}
