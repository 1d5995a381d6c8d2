/* timed_call.c: a call that may block for ever, on a thread that is left behind when its time is over. */
#include "pmix_shim/timed_call.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

/* Freed by whoever comes last: the thread that is left behind, or the caller. */
struct shared_call {
    struct timed_call call;
    pthread_mutex_t lock;
    pthread_cond_t returned;
    bool done, left_behind;
};

static void shared_call_destroy(struct shared_call *shared)
{
    pthread_cond_destroy(&shared->returned);
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

static void *run_call(void *arg)
{
    struct shared_call *shared = arg;
    shared->call.run(shared->call.arg);
    pthread_mutex_lock(&shared->lock);
    shared->done = true;
    bool left_behind = shared->left_behind;
    pthread_cond_signal(&shared->returned);
    pthread_mutex_unlock(&shared->lock);
    if (left_behind) {
        shared->call.discard(shared->call.arg);
        shared_call_destroy(shared);
    }
    return NULL;
}

static struct shared_call *shared_call_create(const struct timed_call *call)
{
    pthread_condattr_t monotonic;
    struct shared_call *shared = calloc(1, sizeof(*shared));
    if (shared == NULL)
        return NULL;
    shared->call = *call;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&shared->returned, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&shared->lock, NULL);
    return shared;
}

/* Signals are blocked meanwhile, as a new thread begins with the mask of its maker. */
static int start_thread(struct shared_call *shared, pthread_t *thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run_call, shared);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int timed_call(const struct timed_call *call, int64_t deadline_us)
{
    const struct timespec deadline = {.tv_sec = deadline_us / 1000000,
                                      .tv_nsec = deadline_us % 1000000 * 1000};
    pthread_t thread;
    int rc = 0;
    struct shared_call *shared = shared_call_create(call);
    if (shared == NULL)
        return HVD_ERR_NO_MEMORY;
    if (start_thread(shared, &thread) != 0) {
        shared_call_destroy(shared);
        return HVD_ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&shared->lock);
    while (!shared->done && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&shared->returned, &shared->lock, &deadline);
    bool done = shared->done;
    shared->left_behind = !done;
    pthread_mutex_unlock(&shared->lock);
    if (!done) {
        pthread_detach(thread);
        return HVD_ERR_TIMEOUT;
    }
    pthread_join(thread, NULL);
    shared_call_destroy(shared);
    return HVD_OK;
}
