/* signals.h: notices fatal signals and SIGUSR2, and passes them on to the program's own handlers. */
#ifndef TRACE_SIGNALS_H
#define TRACE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include "base/status.h"

/* A signal that came. [info] and [context] are those of the signal handler. */
struct signals_event {
    const char *name; /* "SIGSEGV" */
    bool fatal;       /* the process most likely ends now; each fatal signal is notified once */
    bool handled;     /* the program has a handler of its own, which is called next */
    const siginfo_t *info;
    const void *context;
};

/* [notify] is called inside a signal handler, on any thread. Not called in child processes. */
struct signals_handler {
    void (*notify)(void *arg, const struct signals_event *event);
    void *arg;
};

/* SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT are notified and then have their earlier effect. With
 * [requests] SIGUSR2 is notified too, and then calls the earlier handler, if any. [handler] must stay until
 * signals_restore. HVD_ERR_STATE where the process has a handler already. */
int signals_install(const struct signals_handler *handler, bool requests, struct hvd_error *err);

/* Signals have their earlier effect again. Waits until no thread is inside notify. Does nothing where
 * [handler] is not installed. */
void signals_restore(const struct signals_handler *handler);

/* In a signal handler: call [old], the handler that was installed before it, if that is one. */
void signals_call_old(const struct sigaction *old, int number, siginfo_t *info, void *context);

#endif
