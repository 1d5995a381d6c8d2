/* context.h: the job of this process, which the public calls share.
 *
 * api/ promises what hvd.h says: arguments are checked before anything is queued (arguments.h), each
 * operation becomes a request and is submitted to the loop (operation.h, collectives.c), and a blocking call
 * waits until it is done. hvd.c starts and ends the job, process_sets.c adds and removes process sets,
 * allocations.h has the memory of hvd_alloc, and observe.c and clocks.h serve stopping and observing a job.
 * After an error hvd_error_text has one sentence. No other folder includes api/. */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H

#include <pthread.h>

#include "bootstrap/bootstrap.h"
#include "flow/loop.h"
#include "trace/trace.h"

/* Everything that belongs to one start of a job. */
struct context {
    struct hvd_config config;
    struct hvd_log log;
    char log_prefix[300];
    struct bootstrap bootstrap;
    struct loop *loop;
    struct trace *trace;
    /* For operations that have one fixed name in the whole job: threads that call them at the same time take
     * turns. */
    pthread_mutex_t sets_lock, stop_lock;
};

/* The job, or NULL with a sentence in context_error if there is none. */
struct context *context_require(void);

/* The same for calls with a handle, and sets *statusp: HVD_ERR_SHUTDOWN after hvd_shutdown, otherwise
 * HVD_ERR_STATE. */
struct context *context_require_for_handle(enum hvd_status *statusp);

/* The job, or NULL, without a sentence. */
struct context *context_get(void);

/* The sentence of this thread's last error. */
struct hvd_error *context_error(void);

#endif
