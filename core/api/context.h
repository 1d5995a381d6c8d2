/* context.h: the job of this process, as the public calls share it. */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H

#include <pthread.h>

#include "api/allocations.h"
#include "bootstrap/bootstrap.h"
#include "flow/loop.h"
#include "trace/trace.h"

/* Everything of one job start. */
struct context {
    struct hvd_config config;
    struct hvd_log log;
    char log_prefix[300];
    struct bootstrap bootstrap;
    struct loop *loop;
    struct trace *trace;
    /* Calls that are known by one name for the whole job: threads that make them at the same time take turns.
     */
    pthread_mutex_t sets_lock, stop_lock;
};

/* The job; NULL, with the sentence in context_error, where there is none. */
struct context *context_require(void);

/* The same without a sentence. */
struct context *context_get(void);

/* What the program was given of memory, in this job and in those before. */
struct allocations *context_allocations(void);

/* The sentence of this thread's last error. */
struct hvd_error *context_error(void);

#endif
