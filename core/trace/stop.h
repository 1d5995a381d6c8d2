/* stop.h: whether this process was asked to stop, by a call or a signal. */
#ifndef TRACE_STOP_H
#define TRACE_STOP_H

#include <stdbool.h>

#include "base/status.h"

/* Ask this process to stop. Any thread and signal handler, at any time. */
void stop_request(void);

/* A request ends with the job that it stopped: the next one begins without. Call it when no signal is
 * watched. */
void stop_forget(void);

bool stop_requested(void);

/* From now on [signal_number] asks this process to stop, and then calls the earlier handler, if any; it does
 * not end the process. HVD_ERR_STATE where a signal is watched already. One thread at a time. */
int stop_watch(int signal_number, struct hvd_error *err);

/* The signal has its earlier effect again. Does nothing where none is watched. One thread at a time. */
void stop_unwatch(void);

#endif
