/* timed_call.h: calls that may block for ever, on a thread that is left behind when their time is over. */
#ifndef PMIX_SHIM_TIMED_CALL_H
#define PMIX_SHIM_TIMED_CALL_H

#include <stdint.h>

#include "base/status.h"

struct timed_call {
    void (*run)(void *arg);     /* may block */
    void (*discard)(void *arg); /* frees [arg] and what run() has made, if run() returns too late */
    void *arg;                  /* on the heap */
};

/* A thread that makes one call after the other. It takes no signals. */
struct timed_caller;

/* Returns HVD_ERR_NO_MEMORY, without a sentence, if there is no thread to be had. */
int timed_caller_open(struct timed_caller **callerp);

/* Make the call. Returns HVD_OK when run() has returned: the caller owns [arg] again. Returns HVD_ERR_TIMEOUT
 * at [deadline_us]: the thread is left behind and owns [arg], and *callerp is NULL. No sentence is written.
 */
int timed_caller_call(struct timed_caller **callerp, const struct timed_call *call, int64_t deadline_us);

/* NULL is fine. */
void timed_caller_close(struct timed_caller *caller);

/* One call on a thread of its own. Also returns HVD_ERR_NO_MEMORY; then run() was not called. */
int timed_call(const struct timed_call *call, int64_t deadline_us);

#endif
