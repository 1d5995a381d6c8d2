/* timed_call.h: a call that may block for ever, on a thread that is left behind when its time is over. */
#ifndef PMIX_SHIM_TIMED_CALL_H
#define PMIX_SHIM_TIMED_CALL_H

#include <stdint.h>

#include "base/status.h"

struct timed_call {
    void (*run)(void *arg);     /* may block */
    void (*discard)(void *arg); /* frees [arg] and what run() has made, if run() returns too late */
    void *arg;                  /* on the heap */
};

/* Make the call. Returns HVD_OK when run() has returned: the caller owns [arg] again. Returns HVD_ERR_TIMEOUT
 * at [deadline_us]: the thread is left behind, and [arg] is its own. Returns HVD_ERR_NO_MEMORY if there is no
 * thread to be had, and run() was not called. The thread takes no signals. No sentence is written. */
int timed_call(const struct timed_call *call, int64_t deadline_us);

#endif
