/* signals.c: notices fatal signals and SIGUSR2, and passes them on to the program's own handlers. */
#include "trace/signals.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* How long signals_restore waits for a handler on another thread. */
#define RESTORE_WAIT_US INT64_C(1000000)

static const struct handled_signal {
    int number;
    const char *name;
    bool fatal;
} handled[] = {{SIGSEGV, "SIGSEGV", true}, {SIGBUS, "SIGBUS", true},   {SIGILL, "SIGILL", true},
               {SIGFPE, "SIGFPE", true},   {SIGABRT, "SIGABRT", true}, {SIGUSR2, "SIGUSR2", false}};

#define HANDLED_COUNT (sizeof(handled) / sizeof(handled[0]))

/* A signal handler gets nothing but the number of its signal, so its state is static. [old] stays after
 * signals_restore: another handler may have saved ours, and may call it. */
static struct {
    _Atomic(const struct signals_handler *) handler;
    _Atomic int inside;
    pid_t pid;
    struct sigaction old[HANDLED_COUNT];
    bool shadowed[HANDLED_COUNT]; /* another handler was installed after ours, and may call it */
} state;

static void notify(const struct signals_event *event)
{
    atomic_fetch_add(&state.inside, 1);
    const struct signals_handler *handler = atomic_load(&state.handler);
    if (handler != NULL && getpid() == state.pid)
        handler->notify(handler->arg, event);
    atomic_fetch_sub(&state.inside, 1);
}

void signals_call_old(const struct sigaction *old, int number, siginfo_t *info, void *context)
{
    if ((old->sa_flags & SA_SIGINFO) != 0)
        old->sa_sigaction(number, info, context);
    else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
        old->sa_handler(number);
}

static bool is_handler(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static void handle(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    for (size_t i = 0; i < HANDLED_COUNT; i++) {
        if (handled[i].number != number)
            continue;
        notify(&(struct signals_event){handled[i].name, handled[i].fatal, is_handler(&state.old[i]), info,
                                       context});
        if (!handled[i].fatal) {
            signals_call_old(&state.old[i], number, info, context);
            continue;
        }
        /* The earlier handler gets the signal next. A fault happens again when this one returns, so that its
         * place in the core file is right; a signal that was sent is raised again. */
        sigaction(number, &state.old[i], NULL);
        if (info->si_code <= 0)
            raise(number);
    }
    errno = saved_errno;
}

static void install(size_t i)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaction(handled[i].number, NULL, &state.old[i]);
    action.sa_mask = state.old[i].sa_mask;
    sigaction(handled[i].number, &action, NULL);
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handle;
}

int signals_install(const struct signals_handler *handler, bool requests, struct hvd_error *err)
{
    const struct signals_handler *none = NULL;
    if (!atomic_compare_exchange_strong(&state.handler, &none, handler))
        return error_set(err, HVD_ERR_STATE,
                         "signals already write the flight record of another rank of this process");
    state.pid = getpid();
    for (size_t i = 0; i < HANDLED_COUNT; i++) {
        struct sigaction now;
        if (!handled[i].fatal && !requests)
            continue;
        sigaction(handled[i].number, NULL, &now);
        if (!is_ours(&now) && !state.shadowed[i])
            install(i);
    }
    return HVD_OK;
}

void signals_restore(const struct signals_handler *handler)
{
    const struct signals_handler *expected = handler;
    if (!atomic_compare_exchange_strong(&state.handler, &expected, NULL))
        return;
    for (size_t i = 0; i < HANDLED_COUNT; i++) {
        struct sigaction now;
        sigaction(handled[i].number, NULL, &now);
        state.shadowed[i] = !is_ours(&now);
        if (is_ours(&now))
            sigaction(handled[i].number, &state.old[i], NULL);
    }
    int64_t deadline_us = clock_us() + RESTORE_WAIT_US;
    while (atomic_load(&state.inside) > 0 && clock_us() < deadline_us)
        sched_yield();
}
