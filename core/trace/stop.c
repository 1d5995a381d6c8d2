/* stop.c: whether this process was asked to stop, by a call or a signal. */
#include "trace/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "trace/signals.h"

/* A signal handler gets nothing but the number of its signal, so its state is static. [old] stays after
 * stop_unwatch: another handler may have saved ours, and may call it. */
static struct {
    _Atomic bool requested;
    _Atomic bool watching;
    int number; /* of the last watched signal; 0: there was none */
    struct sigaction old;
    bool shadowed; /* another handler was installed after ours, and may call it */
} state;

void stop_request(void)
{
    atomic_store(&state.requested, true);
}

void stop_forget(void)
{
    atomic_store(&state.requested, false);
}

bool stop_requested(void)
{
    return atomic_load(&state.requested);
}

static void handle(int number, siginfo_t *info, void *context)
{
    if (atomic_load(&state.watching))
        stop_request();
    if (number == state.number)
        signals_call_old(&state.old, number, info, context);
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handle;
}

int stop_watch(int signal_number, struct hvd_error *err)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    struct sigaction now;
    if (atomic_load(&state.watching))
        return error_set(err, HVD_ERR_STATE, "signal %d (%s) already asks this process to stop", state.number,
                         strsignal(state.number));
    if (sigaction(signal_number, NULL, &now) < 0)
        return error_set_errno(err, "signal %d cannot be watched", signal_number);
    if (!is_ours(&now) && !(state.shadowed && signal_number == state.number)) {
        state.old = now;
        action.sa_mask = now.sa_mask;
        state.number = signal_number;
        if (sigaction(signal_number, &action, NULL) < 0)
            return error_set_errno(err, "signal %d cannot be watched", signal_number);
    }
    atomic_store(&state.watching, true);
    return HVD_OK;
}

void stop_unwatch(void)
{
    struct sigaction now;
    if (!atomic_exchange(&state.watching, false))
        return;
    sigaction(state.number, NULL, &now);
    state.shadowed = !is_ours(&now);
    if (!state.shadowed)
        sigaction(state.number, &state.old, NULL);
}
