/* stop.h: whether this process was asked to stop, by a call or by a signal. */
#ifndef TRACE_STOP_H
#define TRACE_STOP_H

#include <stdbool.h>

#include "base/status.h"

/* Ask. Any thread, signal handlers, at any time; it stays asked. */
void stop_request(void);

bool stop_requested(void);

/* From now on [signal_number] asks, and then calls the handler that was there, if any; it does not end the
 * process. HVD_ERR_STATE where a signal is watched already. One thread. */
int stop_watch(int signal_number, struct hvd_error *err);

/* The signal does again what it did. Where none is watched: nothing. One thread. */
void stop_unwatch(void);

#endif
