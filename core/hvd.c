/* hvd.c: the public calls: arguments are checked here, the work is done below. */
#include "config.h"
#include "hvd.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/join.h"
#include "flow/loop.h"

/* Everything of one job start. */
struct context {
    struct hvd_config config;
    struct hvd_log log;
    char log_name[300];
    struct joined joined;
    struct loop *loop;
};

/* The one job of this process, and the last sentence of each thread: the library's only state. */
static struct context *current;
static pid_t forked_from; /* != 0 in a child that inherited a job and has no part in it */
static _Thread_local struct hvd_error last_error;

static void warn_on_stderr(const char *sentence)
{
    log_to_stderr(NULL, LOG_WARN, "config", sentence);
}

/* ---- Start and end ------------------------------------------------------------------------------ */

static void close_context(struct context *context)
{
    loop_destroy(context->loop);
    join_close(&context->joined);
    free(context);
}

/* A forked child keeps a parent's descriptors open, and then nobody sees the parent die. */
static void after_fork(void)
{
    if (current == NULL)
        return;
    loop_after_fork(current->loop);
    join_after_fork(&current->joined);
    forked_from = getppid();
    current = NULL;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

static void name_the_log(struct context *context)
{
    roster_name(&context->joined.roster, context->joined.job.rank, context->log_name,
                sizeof(context->log_name));
    context->log.arg = context->log_name;
}

static int start_loop(struct context *context, int64_t deadline_us)
{
    struct joined *joined = &context->joined;
    struct plane_env env = {.config = &context->config,
                            .log = &context->log,
                            .job = &joined->job,
                            .roster = &joined->roster,
                            .shape = &joined->shape,
                            .endpoint = joined->endpoint};
    return loop_create(&context->loop, joined->control, &env, deadline_us, &last_error);
}

enum hvd_status hvd_init(void)
{
    if (current != NULL)
        return error_set(&last_error, HVD_ERR_STATE,
                         "hvd_init was called twice; call hvd_shutdown in between");
    if (forked_from != 0)
        return error_set(&last_error, HVD_ERR_STATE,
                         "this process was forked from a rank (pid %d) and has no place in the job; use hvd "
                         "there, or exec",
                         (int)forked_from);
    struct context *context = calloc(1, sizeof(*context));
    if (context == NULL)
        return error_set(&last_error, HVD_ERR_NO_MEMORY, "no memory for hvd_init");
    int rc = config_load(&context->config, environ, warn_on_stderr, &last_error);
    context->log = (struct hvd_log){(enum log_level)context->config.log_level, log_to_stderr, NULL};
    int64_t deadline_us = clock_us() + context->config.start_timeout_us;
    if (rc == HVD_OK)
        rc = join_open(&context->joined, &context->config, &context->log, &last_error);
    if (rc == HVD_OK) {
        name_the_log(context);
        rc = start_loop(context, deadline_us);
    }
    if (rc != HVD_OK) {
        close_context(context);
        return rc;
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    current = context;
    pthread_once(&once, watch_forks);
    return HVD_OK;
}

enum hvd_status hvd_shutdown(void)
{
    struct context *context = current;
    if (context == NULL)
        return HVD_OK;
    if (loop_is_driving(context->loop))
        return error_set(&last_error, HVD_ERR_STATE,
                         "hvd_shutdown was called inside a callback; call it elsewhere");
    int rc = loop_leave(context->loop, &last_error);
    current = NULL;
    close_context(context);
    return rc;
}

int hvd_is_initialized(void)
{
    return current != NULL;
}

int hvd_rank(void)
{
    return current == NULL ? -1 : current->joined.job.rank;
}

int hvd_size(void)
{
    return current == NULL ? -1 : current->joined.job.size;
}

int hvd_local_rank(void)
{
    return current == NULL ? -1 : current->joined.shape.local_rank;
}

int hvd_local_size(void)
{
    return current == NULL ? -1 : current->joined.shape.local_size;
}

int hvd_node_rank(void)
{
    return current == NULL ? -1 : current->joined.shape.node;
}

int hvd_node_count(void)
{
    return current == NULL ? -1 : current->joined.shape.node_count;
}

/* ---- Checks ------------------------------------------------------------------------------------- */

static int check_name(const char *name)
{
    if (name == NULL || name[0] == 0)
        return error_set(&last_error, HVD_ERR_INVALID,
                         "a tensor needs a name: the same on all ranks, 1 to %d bytes", HVD_MAX_NAME);
    size_t length = strnlen(name, HVD_MAX_NAME + 1);
    if (length > HVD_MAX_NAME)
        return error_set(&last_error, HVD_ERR_INVALID, "the name \"%.40s...\" is longer than %d bytes", name,
                         HVD_MAX_NAME);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 127)
            return error_set(
                &last_error, HVD_ERR_INVALID,
                "byte %zu of a tensor's name is the control character %d; use printable characters", i,
                name[i]);
    }
    return HVD_OK;
}

static int check_shape(const struct hvd_tensor *tensor)
{
    if (tensor->ndim < 0 || tensor->ndim > HVD_MAX_DIMS)
        return error_set(&last_error, HVD_ERR_INVALID, "\"%s\": ndim is %d; expected 0 to %d", tensor->name,
                         tensor->ndim, HVD_MAX_DIMS);
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0)
            return error_set(&last_error, HVD_ERR_INVALID, "\"%s\": shape[%d] is %lld; expected 0 or more",
                             tensor->name, i, (long long)tensor->shape[i]);
    }
    return HVD_OK;
}

static int check_memory(const struct request *request, const char *name, bool reads_input)
{
    const char *input = request->input;
    const char *output = request->output;
    if (request->bytes == 0)
        return HVD_OK;
    if (output == NULL || (reads_input && input == NULL))
        return error_set(&last_error, HVD_ERR_INVALID, "\"%s\": %s is NULL, but there are %lld elements",
                         name, output == NULL ? "output" : "input", (long long)request->count);
    bool overlaps =
        reads_input && input != output && input < output + request->bytes && output < input + request->bytes;
    if (overlaps)
        return error_set(&last_error, HVD_ERR_INVALID,
                         "\"%s\": input and output overlap in part; give the same memory, or separate memory",
                         name);
    return HVD_OK;
}

static struct context *initialized(void)
{
    if (current == NULL)
        error_set(&last_error, HVD_ERR_STATE,
                  forked_from != 0 ? "this process was forked from a rank and has no part in its job"
                                   : "hvd is not initialised; call hvd_init first");
    return current;
}

/* Make [request] of a caller's tensor. */
static int describe(const struct hvd_tensor *tensor, enum desc_kind kind, bool reads_input,
                    struct request *request)
{
    if (tensor == NULL)
        return error_set(&last_error, HVD_ERR_INVALID, "the tensor is NULL");
    int rc = check_name(tensor->name);
    if (rc == HVD_OK && dtype_name(tensor->dtype) == NULL)
        rc = error_set(&last_error, HVD_ERR_INVALID, "\"%s\": %d is no enum hvd_dtype", tensor->name,
                       (int)tensor->dtype);
    if (rc == HVD_OK)
        rc = check_shape(tensor);
    if (rc != HVD_OK)
        return rc;
    struct desc *desc = &request->desc;
    desc->kind = kind;
    desc->dtype = tensor->dtype;
    desc->ndim = tensor->ndim;
    memcpy(desc->shape, tensor->shape, (size_t)tensor->ndim * sizeof(desc->shape[0]));
    snprintf(desc->name, sizeof(desc->name), "%s", tensor->name);
    request->count = desc_count(desc);
    if (request->count < 0)
        return error_set(&last_error, HVD_ERR_INVALID, "\"%s\": the tensor would have 2^63 bytes or more",
                         tensor->name);
    request->bytes = request->count * (int64_t)dtype_bytes(desc->dtype);
    request->input = reads_input ? tensor->input : tensor->output;
    request->output = tensor->output;
    return check_memory(request, tensor->name, reads_input);
}

static int find_planes(const struct context *context, struct request *request)
{
    struct plane_need need = {request->desc.kind == DESC_BROADCAST ? PLANE_BROADCAST : PLANE_ALLREDUCE,
                              request->desc.dtype, request->desc.op};
    request->desc.planes = loop_planes(context->loop, &need);
    if (request->desc.planes != 0)
        return HVD_OK;
    return error_set(&last_error, HVD_ERR_UNSUPPORTED, "\"%s\": none of this rank's planes carries %s",
                     request->desc.name, dtype_name(request->desc.dtype));
}

/* ---- Operations --------------------------------------------------------------------------------- */

static int describe_allreduce(const struct context *context, const struct hvd_tensor *tensor, enum hvd_op op,
                              struct request *request)
{
    int rc = describe(tensor, DESC_ALLREDUCE, true, request);
    if (rc == HVD_OK && op_name(op) == NULL)
        rc = error_set(&last_error, HVD_ERR_INVALID, "allreduce \"%s\": %d is no enum hvd_op", tensor->name,
                       (int)op);
    request->desc.op = op;
    return rc == HVD_OK ? find_planes(context, request) : rc;
}

static int describe_broadcast(const struct context *context, const struct hvd_tensor *tensor, int root,
                              struct request *request)
{
    int size = context->joined.job.size;
    int rc = describe(tensor, DESC_BROADCAST, context->joined.job.rank == root, request);
    if (rc == HVD_OK && (root < 0 || root >= size))
        rc = error_set(&last_error, HVD_ERR_INVALID,
                       "broadcast \"%s\": root is %d; expected a rank from 0 to %d", tensor->name, root,
                       size - 1);
    request->desc.root = root;
    return rc == HVD_OK ? find_planes(context, request) : rc;
}

static int describe_barrier(struct request *request)
{
    request->desc.kind = DESC_BARRIER;
    snprintf(request->desc.name, sizeof(request->desc.name), "%s", DESC_BARRIER_NAME);
    return HVD_OK;
}

static enum hvd_status submit(struct context *context, struct request *request, hvd_done_f done, void *arg,
                              hvd_handle *handlep)
{
    request->done = done;
    request->arg = arg;
    return loop_submit(context->loop, request, true, handlep, &last_error);
}

/* The plain form: this thread drives its own operation, so nobody needs to be woken. */
static enum hvd_status submit_and_wait(struct context *context, struct request *request)
{
    hvd_handle handle = 0;
    if (loop_is_driving(context->loop))
        return error_set(&last_error, HVD_ERR_STATE,
                         "a waiting call was made inside a callback; use the _async form");
    int rc = loop_submit(context->loop, request, false, &handle, &last_error);
    return rc == HVD_OK ? loop_wait(context->loop, handle, &last_error) : rc;
}

enum hvd_status hvd_allreduce(const struct hvd_tensor *tensor, enum hvd_op op)
{
    struct context *context = initialized();
    struct request request = {0};
    if (context == NULL)
        return HVD_ERR_STATE;
    int rc = describe_allreduce(context, tensor, op, &request);
    return rc == HVD_OK ? submit_and_wait(context, &request) : rc;
}

enum hvd_status hvd_allreduce_async(const struct hvd_tensor *tensor, enum hvd_op op, hvd_done_f done,
                                    void *arg, hvd_handle *handlep)
{
    struct context *context = initialized();
    struct request request = {0};
    if (context == NULL)
        return HVD_ERR_STATE;
    int rc = describe_allreduce(context, tensor, op, &request);
    return rc == HVD_OK ? submit(context, &request, done, arg, handlep) : rc;
}

enum hvd_status hvd_broadcast(const struct hvd_tensor *tensor, int root)
{
    struct context *context = initialized();
    struct request request = {0};
    if (context == NULL)
        return HVD_ERR_STATE;
    int rc = describe_broadcast(context, tensor, root, &request);
    return rc == HVD_OK ? submit_and_wait(context, &request) : rc;
}

enum hvd_status hvd_broadcast_async(const struct hvd_tensor *tensor, int root, hvd_done_f done, void *arg,
                                    hvd_handle *handlep)
{
    struct context *context = initialized();
    struct request request = {0};
    if (context == NULL)
        return HVD_ERR_STATE;
    int rc = describe_broadcast(context, tensor, root, &request);
    return rc == HVD_OK ? submit(context, &request, done, arg, handlep) : rc;
}

enum hvd_status hvd_barrier(void)
{
    struct context *context = initialized();
    struct request request = {0};
    if (context == NULL)
        return HVD_ERR_STATE;
    describe_barrier(&request);
    return submit_and_wait(context, &request);
}

enum hvd_status hvd_barrier_async(hvd_done_f done, void *arg, hvd_handle *handlep)
{
    struct context *context = initialized();
    struct request request = {0};
    if (context == NULL)
        return HVD_ERR_STATE;
    describe_barrier(&request);
    return submit(context, &request, done, arg, handlep);
}

enum hvd_status hvd_test(hvd_handle handle)
{
    struct context *context = initialized();
    return context == NULL ? HVD_ERR_STATE : loop_test(context->loop, handle, &last_error);
}

enum hvd_status hvd_wait(hvd_handle handle)
{
    struct context *context = initialized();
    return context == NULL ? HVD_ERR_STATE : loop_wait(context->loop, handle, &last_error);
}

/* ---- Words -------------------------------------------------------------------------------------- */

const char *hvd_error_text(void)
{
    return last_error.text;
}

const char *hvd_status_text(enum hvd_status status)
{
    return status_text(status);
}

const char *hvd_version(void)
{
    return PACKAGE_VERSION;
}
