/* hvd.c: the public calls that start and end a job, tell this process's place in it, and allocate memory. */
#include "config.h"
#include "api/context.h"
#include "api/plugin_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "api/allocations.h"
#include "api/clocks.h"
#include "net/env_export.h"
#include "bootstrap/placement.h"
#include "bootstrap/wireup.h"
#include "api/process_sets.h"
#include "api/start_notice.h"
#include "trace/flight_memory.h"
#include "trace/stop.h"

/* The variables that the job of this process exported, and its allocations: the library's only state besides
 * that of context.c and states.c. */
static struct env_export env_export;
static struct allocations allocations = ALLOCATIONS_INIT(allocations);

/* What the options were warned of, until it is known which rank says it. */
static struct hvd_error warnings[16];
static int warning_count;

static void keep_warning(const char *sentence)
{
    if (warning_count < (int)(sizeof(warnings) / sizeof(warnings[0])))
        error_set(&warnings[warning_count++], HVD_OK, "%s", sentence);
    else
        log_to_stderr(NULL, LOG_WARN, "config", sentence);
}

static void tell_warnings(const struct hvd_log *log, enum log_level level)
{
    for (int i = 0; i < warning_count; i++)
        log_write(log, level, "config", "%s", warnings[i].text);
    warning_count = 0;
}

/* ---- Start and end ------------------------------------------------------------------------------ */

static void close_context(struct context *context)
{
    if (loop_abandon(context->loop)) {
        stop_unwatch();
        return; /* closing descriptors, and freeing what uses them, could harm the program */
    }
    loop_destroy(context->loop);
    stop_unwatch();
    trace_destroy(context->trace);
    allocations_unmap_windows(&allocations, &context->bootstrap.windows);
    bootstrap_close(&context->bootstrap);
    pthread_mutex_destroy(&context->sets_lock);
    pthread_mutex_destroy(&context->stop_lock);
    free(context);
}

/* Close the job's descriptors in a forked child. While the child holds them open, no other rank can see the
 * parent die. */
static void after_fork(void)
{
    allocations_after_fork(&allocations);
    wireup_after_fork();
    struct context *context = context_get();
    if (context == NULL)
        return;
    if (!loop_is_closed(context->loop)) {
        loop_after_fork(context->loop);
        bootstrap_after_fork(&context->bootstrap);
    }
    context_leave_to_parent();
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

static void set_log_prefix(struct context *context)
{
    peer_table_rank_name(&context->bootstrap.peer_table, context->bootstrap.job.rank, context->log_prefix,
                         sizeof(context->log_prefix));
    context->log.arg = context->log_prefix;
}

/* Start the trace and watch for the stop signal. Called before the loop, which records from its first
 * round. */
static int start_trace(struct context *context)
{
    const struct hvd_job *job = &context->bootstrap.job;
    const struct hvd_config *config = &context->config;
    const struct trace_params plan = {.rank = job->rank,
                                      .size = job->size,
                                      .first = job->launcher_ranks == NULL ? 0 : job->launcher_ranks[0],
                                      .epoch = job->epoch,
                                      .host = job->host,
                                      .dump_dir = config->dump_dir,
                                      .flight_memory = secure_getenv(FLIGHT_MEMORY_VARIABLE),
                                      .log = &context->log};
    int rc = trace_create(&context->trace, &plan, context_error());
    if (rc == HVD_OK && config->timeline[0] != 0)
        rc = trace_timeline_start(context->trace, config->timeline, context_error());
    if (rc == HVD_OK && config->stop_signal != 0)
        rc = stop_watch(config->stop_signal, context_error());
    return rc;
}

static int allocate_host(void *context, int64_t bytes, void **memoryp, struct hvd_error *err)
{
    return allocations_allocate(&allocations, &((struct context *)context)->bootstrap.windows, bytes, memoryp,
                                err);
}

static int free_host(void *context, void *memory, struct hvd_error *err)
{
    return allocations_free(&allocations, &((struct context *)context)->bootstrap.windows, memory, err);
}

static int start_loop(struct context *context)
{
    struct bootstrap *bootstrap = &context->bootstrap;
    struct backend_env env = {.config = &context->config,
                              .log = &context->log,
                              .job = &bootstrap->job,
                              .peer_table = &bootstrap->peer_table,
                              .shape = &bootstrap->shape,
                              .endpoint = bootstrap->endpoint,
                              .message_endpoint = bootstrap->message_endpoint,
                              .arena = bootstrap->arena,
                              .windows = &bootstrap->windows,
                              .host_memory = {allocate_host, free_host, context},
                              .oversubscribed = bootstrap->oversubscription.oversubscribed,
                              .no_spare_core = bootstrap->oversubscription.no_spare_core};
    return loop_create(&context->loop, bootstrap->control, context->trace, &env, bootstrap->deadline_us,
                       context_error());
}

/* Add the process sets of the start. bootstrap has checked that all ranks have equally many; here they agree
 * on each list. */
static int start_sets(struct context *context, const struct hvd_start *start)
{
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < start->set_count; i++) {
        char what[64];
        hvd_set set = -1;
        snprintf(what, sizeof(what), "hvd_init_with: sets[%d]", i);
        rc = process_sets_add(context, &start->sets[i], what, &set);
    }
    if (rc != HVD_OK) {
        struct hvd_error cause = *context_error();
        loop_leave(context->loop, NULL); /* the other ranks fail in the same way, and leave too */
        *context_error() = cause;
    }
    return rc;
}

static int start_job(struct context *context, const struct hvd_start *start)
{
    env_export_withdraw(&env_export);
    descriptors_raise();
    context->config.log_level = LOG_WARN; /* until the options are known */
    int rc = config_load(&context->config, environ, keep_warning, context_error());
    if (rc != HVD_OK)
        wireup_foresee(&context->bootstrap.job); /* for its turn to say so */
    context->log = (struct hvd_log){(enum log_level)context->config.log_level, log_to_stderr, NULL};
    if (rc == HVD_OK)
        rc = plugin_check(context_error());
    if (rc == HVD_OK)
        rc = bootstrap_open(&context->bootstrap, &context->config, &context->log, start, context_error());
    if (rc != HVD_OK) {
        tell_warnings(&context->log, LOG_WARN); /* they may be why */
        return rc;
    }
    set_log_prefix(context);
    tell_warnings(&context->log, context->bootstrap.warns ? LOG_WARN : LOG_INFO);
    rc = placement_apply(&context->bootstrap, &context->config, &context->log, context_error());
    if (rc == HVD_OK)
        rc = env_export_write(&env_export, &context->bootstrap.settings, context_error());
    if (rc == HVD_OK)
        rc = start_trace(context);
    if (rc == HVD_OK)
        rc = start_loop(context);
    if (rc == HVD_OK)
        rc = start_sets(context, start);
    return rc == HVD_OK ? clocks_measure_offset(context) : rc;
}

/* As start_job. Meanwhile a record of its own says that this process is in hvd_init: that of the launcher
 * belongs to the rank, which this process may not be. */
static int start_context(struct context *context, const struct hvd_start *start)
{
    const struct flight_rank unknown = {.rank = -1};
    struct flight_memory starting = {0};
    struct start_notice notice;
    if (flight_memory_create(&starting, NULL) == HVD_OK)
        flight_enter_phase(starting.flight, &unknown, FLIGHT_STARTS);
    start_notice_begin(&notice);
    int rc = start_job(context, start);
    start_notice_end(&notice);
    flight_memory_destroy(&starting);
    return rc;
}

enum hvd_status hvd_init_with(const struct hvd_start *start)
{
    static const struct hvd_start default_start;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc = context_require_none();
    if (rc != HVD_OK)
        return rc;
    struct context *context = calloc(1, sizeof(*context));
    if (context == NULL)
        return error_set(context_error(), HVD_ERR_NO_MEMORY, "no memory for hvd_init");
    pthread_mutex_init(&context->sets_lock, NULL);
    pthread_mutex_init(&context->stop_lock, NULL);
    struct hvd_error before = *context_error();
    rc = start_context(context, start == NULL ? &default_start : start);
    if (rc != HVD_OK) {
        bootstrap_await_turn_to_speak(&context->bootstrap.job, context->bootstrap.shape.local_size, rc);
        close_context(context);
        return rc;
    }
    /* a step that failed, and that another one stood in for, is no error of this call */
    *context_error() = before;
    context_begin(context);
    pthread_once(&once, register_fork_handler);
    return HVD_OK;
}

enum hvd_status hvd_init(void)
{
    return hvd_init_with(NULL);
}

enum hvd_status hvd_shutdown(void)
{
    struct context *context = context_get();
    if (context == NULL)
        return HVD_OK;
    int rc = loop_check_not_in_callback(context->loop, "hvd_shutdown", context_error());
    if (rc != HVD_OK)
        return rc;
    trace_leaves(context->trace);
    bool elastic = wireup_is_elastic();
    rc = loop_leave(context->loop, context_error());
    if (rc != HVD_OK)
        wireup_forget_reunion();
    wireup_end_epoch(context->bootstrap.control->silent_rank);
    context_end();
    close_context(context);
    stop_forget();
    /* the next operation would have told of the loss; who leaves can do so without the others */
    return elastic && rc == HVD_ERR_RANK_LOST ? HVD_OK : rc;
}

/* ---- Who am I ----------------------------------------------------------------------------------- */

int hvd_is_initialized(void)
{
    return context_get() != NULL;
}

int hvd_rank(void)
{
    const struct context *context = context_get();
    return context == NULL ? -1 : context->bootstrap.job.rank;
}

int hvd_size(void)
{
    const struct context *context = context_get();
    return context == NULL ? -1 : context->bootstrap.job.size;
}

int hvd_local_rank(void)
{
    const struct context *context = context_get();
    return context == NULL ? -1 : context->bootstrap.shape.local_rank;
}

int hvd_local_size(void)
{
    const struct context *context = context_get();
    return context == NULL ? -1 : context->bootstrap.shape.local_size;
}

int hvd_node_rank(void)
{
    const struct context *context = context_get();
    return context == NULL ? -1 : context->bootstrap.shape.node;
}

int hvd_node_count(void)
{
    const struct context *context = context_get();
    return context == NULL ? -1 : context->bootstrap.shape.node_count;
}

int hvd_launcher_ranks(int *ranks, int capacity)
{
    const struct context *context = context_get();
    if (context == NULL)
        return -1;
    const struct bootstrap *bootstrap = &context->bootstrap;
    for (int rank = 0; ranks != NULL && rank < bootstrap->job.size && rank < capacity; rank++)
        ranks[rank] = bootstrap->launcher_ranks == NULL ? rank : bootstrap->launcher_ranks[rank];
    return bootstrap->job.size;
}

/* ---- Memory ------------------------------------------------------------------------------------- */

enum hvd_status hvd_alloc(int64_t bytes, void **memoryp)
{
    struct context *context = context_require();
    if (context == NULL)
        return HVD_ERR_STATE;
    return allocations_allocate(&allocations, &context->bootstrap.windows, bytes, memoryp, context_error());
}

enum hvd_status hvd_alloc_on(int device, int64_t bytes, void **memoryp)
{
    struct context *context = context_require();
    if (context == NULL)
        return HVD_ERR_STATE;
    return allocations_allocate_on(&allocations, loop_gpu(context->loop), device, bytes, memoryp,
                                   context_error());
}

enum hvd_status hvd_free(void *memory)
{
    static const struct windows none;
    const struct context *context = context_get();
    return allocations_free(&allocations, context == NULL ? &none : &context->bootstrap.windows, memory,
                            context_error());
}

/* ---- Texts -------------------------------------------------------------------------------------- */

const char *hvd_error_text(void)
{
    return context_error()->text;
}

/* The sentence may be, or lie in, what hvd_error_text has returned. */
enum hvd_status hvd_error_set(enum hvd_status status, const char *sentence)
{
    struct hvd_error given;
    error_set(&given, status, "%s", sentence == NULL ? "" : sentence);
    *context_error() = given;
    return status;
}

const char *hvd_status_text(enum hvd_status status)
{
    return status_text(status);
}

const char *hvd_version(void)
{
    return PACKAGE_VERSION;
}
