/* signals.h: be told of fatal signals and of SIGUSR2, and let the program have them as before. */
#ifndef TRACE_SIGNALS_H
#define TRACE_SIGNALS_H

#include <stdbool.h>

#include "base/status.h"

/* Who is told. In a signal handler, on any thread: [name] is "SIGSEGV". [fatal]: the process most likely ends
 * now; each such signal is told once. Not in children. */
struct signals_handler {
    void (*notify)(void *arg, const char *name, bool fatal);
    void *arg;
};

/* SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT are told and then do what they did, SIGUSR2 calls the handler
 * that was there, if any. A process has one handler, borrowed: HVD_ERR_STATE. */
int signals_install(const struct signals_handler *handler, struct hvd_error *err);

/* Signals do what they did. Waits until nobody is inside notify. Not watched: nothing. */
void signals_restore(const struct signals_handler *handler);

#endif
