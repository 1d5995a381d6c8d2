/* timed_call.c: calls that may block for ever, on a thread that is left behind when their time is over. */
#include "pmix_shim/timed_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/stack.h"

struct timed_caller {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct timed_call call;
    bool posted, done, closing;
    bool left_behind; /* the thread frees this struct */
};

static void caller_free(struct timed_caller *caller)
{
    pthread_cond_destroy(&caller->changed);
    pthread_mutex_destroy(&caller->lock);
    free(caller);
}

static void *make_calls(void *arg)
{
    struct timed_caller *caller = arg;
    pthread_mutex_lock(&caller->lock);
    for (;;) {
        while (!caller->posted && !caller->closing)
            pthread_cond_wait(&caller->changed, &caller->lock);
        if (caller->closing)
            break;
        pthread_mutex_unlock(&caller->lock);
        caller->call.run(caller->call.arg);
        pthread_mutex_lock(&caller->lock);
        caller->posted = false;
        caller->done = true;
        pthread_cond_broadcast(&caller->changed);
        if (caller->left_behind)
            break;
    }
    bool left_behind = caller->left_behind;
    pthread_mutex_unlock(&caller->lock);
    if (left_behind) {
        caller->call.discard(caller->call.arg);
        caller_free(caller);
    }
    return NULL;
}

int timed_caller_open(struct timed_caller **callerp)
{
    pthread_condattr_t monotonic;
    struct timed_caller *caller = calloc(1, sizeof(*caller));
    if (caller == NULL)
        return HVD_ERR_NO_MEMORY;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&caller->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&caller->lock, NULL);
    if (stack_create_thread(&caller->thread, make_calls, caller) != 0) {
        caller_free(caller);
        return HVD_ERR_NO_MEMORY;
    }
    *callerp = caller;
    return HVD_OK;
}

int timed_caller_call(struct timed_caller **callerp, const struct timed_call *call, int64_t deadline_us)
{
    const struct timespec deadline = clock_timespec(deadline_us);
    struct timed_caller *caller = *callerp;
    pthread_t thread = caller->thread;
    int rc = 0;
    pthread_mutex_lock(&caller->lock);
    caller->call = *call;
    caller->posted = true;
    caller->done = false;
    pthread_cond_broadcast(&caller->changed);
    while (!caller->done && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&caller->changed, &caller->lock, &deadline);
    bool done = caller->done;
    caller->left_behind = !done;
    pthread_mutex_unlock(&caller->lock);
    if (done)
        return HVD_OK;
    pthread_detach(thread);
    *callerp = NULL;
    return HVD_ERR_TIMEOUT;
}

void timed_caller_close(struct timed_caller *caller)
{
    if (caller == NULL)
        return;
    pthread_mutex_lock(&caller->lock);
    caller->closing = true;
    pthread_cond_broadcast(&caller->changed);
    pthread_mutex_unlock(&caller->lock);
    pthread_join(caller->thread, NULL);
    caller_free(caller);
}

int timed_call(const struct timed_call *call, int64_t deadline_us)
{
    struct timed_caller *caller = NULL;
    int rc = timed_caller_open(&caller);
    if (rc == HVD_OK)
        rc = timed_caller_call(&caller, call, deadline_us);
    timed_caller_close(caller);
    return rc;
}
