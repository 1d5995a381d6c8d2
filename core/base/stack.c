/* stack.c: run code on a stack that is large enough whatever `ulimit -s` says. */
#include "config.h"
#include "base/stack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

/* libpmix 4.2 overruns 256 KiB; 512 KiB are enough for it. */
#define STACK_BYTES ((size_t)2 << 20)

struct stack_caller {
    int (*function)(void *argument);
    void *argument;
    int result;
    sigset_t signal_mask;
};

static void *call_on_thread(void *opaque)
{
    struct stack_caller *call = opaque;
    pthread_sigmask(SIG_SETMASK, &call->signal_mask, NULL);
    call->result = call->function(call->argument);
    return NULL;
}

int stack_create_thread(pthread_t *thread, void *(*function)(void *argument), void *argument)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    size_t bytes = 0;
    int rc = pthread_attr_init(&attributes);
    if (rc != 0)
        return rc;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < STACK_BYTES)
        rc = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (rc == 0)
        rc = pthread_create(thread, &attributes, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return rc;
}

int stack_call(int (*function)(void *argument), void *argument)
{
    struct stack_caller call = {.function = function, .argument = argument};
    struct rlimit limit;
    sigset_t all;
    pthread_t thread;
    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= STACK_BYTES)
        return function(argument);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &call.signal_mask);
    int rc = stack_create_thread(&thread, call_on_thread, &call);
    if (rc == 0)
        pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, &call.signal_mask, NULL);
    return rc == 0 ? call.result : function(argument);
}

static void set_thread_default(size_t bytes)
{
    pthread_attr_t attributes;
    if (pthread_getattr_default_np(&attributes) != 0)
        return;
    if (pthread_attr_setstacksize(&attributes, bytes) == 0)
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

size_t stack_raise_thread_default(void)
{
    pthread_attr_t attributes;
    size_t before = 0;
    if (pthread_getattr_default_np(&attributes) != 0)
        return 0;
    if (pthread_attr_getstacksize(&attributes, &before) != 0 || before >= STACK_BYTES)
        before = 0;
    pthread_attr_destroy(&attributes);
    if (before > 0)
        set_thread_default(STACK_BYTES);
    return before;
}

void stack_restore_thread_default(size_t before)
{
    if (before > 0)
        set_thread_default(before);
}
