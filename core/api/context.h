/* context.h: the job of this process, which the public calls share.
 *
 * api/ promises what hvd.h says: arguments are checked before anything is queued (arguments.h), each
 * operation becomes a request and is submitted to the loop (operation.h, collectives.c), and a blocking call
 * waits until it is done. hvd.c starts and ends the job, process_sets.c adds and removes process sets,
 * allocations.h has the memory of hvd_alloc, states.c, elastic.c, state_memory.h and state_disk.h keep a
 * common state of the ranks, and observe.c and clocks.h serve stopping and observing a job. After an error
 * hvd_error_text has one sentence. No other folder includes api/. */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H

#include <pthread.h>

#include "bootstrap/bootstrap.h"
#include "flow/loop.h"
#include "trace/trace.h"

/* Everything that belongs to one start of a job. */
struct context {
    uint64_t start; /* the number of this start, from 1 */
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

/* [context] is the job from now on; it has ended; this process is a fork of a rank, and has no part in the
 * job.
 */
void context_begin(struct context *context);
void context_end(void);
void context_leave_to_parent(void);

/* HVD_OK if a job may begin: there is none, and this process was not forked from a rank. Otherwise
 * HVD_ERR_STATE with a sentence in context_error. */
int context_require_none(void);

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
