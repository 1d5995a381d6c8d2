/* loop.c: the path of a tensor: one round takes every operation one step further. */
#include "flow/loop.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/adasum.h"
#include "flow/stages.h"

/* Messages taken in one round before data gets its turn. */
#define MESSAGES_PER_ROUND 64

/* How long a waiting caller looks for news before it sleeps. */
#define SPIN_US 50

/* ---- control <-> 2 negotiate ----------------------------------------------------------------- */

static int handle_message(struct loop *loop, const struct control_event *event, struct hvd_error *err)
{
    if (event->link != TREE_PARENT)
        return negotiate_from_child(loop->negotiate, event->link - 1, event->bytes, event->length, err);
    return negotiate_from_parent(loop->negotiate, event->bytes, event->length, err);
}

static bool receive_messages(struct loop *loop, struct hvd_error *err, int *rcp)
{
    bool moved = false;
    for (int i = 0; i < MESSAGES_PER_ROUND && *rcp == HVD_OK && atomic_load(&loop->failed) == HVD_OK; i++) {
        struct control_event event;
        int rc = loop->control->ops->receive(loop->control, &event, err);
        if (rc == HVD_IN_PROGRESS)
            break;
        moved = true;
        if (rc != HVD_OK)
            *rcp = rc;
        else if (event.kind == CONTROL_ABORT)
            fail_on_abort(loop, &event);
        else
            *rcp = handle_message(loop, &event, err);
    }
    return moved;
}

/* Decide what can be decided here, unless there is enough to do: what becomes ready meanwhile is then decided
 * together. */
static int decide_if_idle(struct loop *loop, struct hvd_error *err)
{
    return loop->batch_count < loop->settings.inflight ? negotiate_decide(loop->negotiate, err) : HVD_OK;
}

static bool send_messages(struct loop *loop, struct hvd_error *err, int *rcp)
{
    bool moved = false;
    int first_link = loop->control->parent < 0 ? TREE_PARENT + 1 : TREE_PARENT;
    if (*rcp != HVD_OK || atomic_load(&loop->failed) != HVD_OK)
        return false;
    *rcp = decide_if_idle(loop, err);
    for (int link = first_link; link <= loop->control->child_count && *rcp == HVD_OK; link++) {
        const void *bytes = NULL;
        size_t length = 0;
        *rcp = negotiate_get_message(loop->negotiate, link, &bytes, &length, err);
        if (*rcp != HVD_OK || length == 0)
            continue;
        *rcp = loop->control->ops->send(loop->control, link, bytes, length, err);
        moved = true;
    }
    /* after it was said, so that others are at it too */
    if (*rcp == HVD_OK)
        *rcp = negotiation_take_decisions(loop, err);
    return moved;
}

/* ---- 0 loop ------------------------------------------------------------------------------------ */

/* All ranks leave: say so when nothing is left to do for them, and go when that is out. */
static void leave(struct loop *loop)
{
    if (!loop->all_left || loop->batches != NULL || atomic_load(&loop->has_left))
        return;
    if (!loop->farewell_sent)
        loop->control->ops->farewell(loop->control);
    loop->farewell_sent = true;
    if (!loop->control->ops->flushed(loop->control))
        return;
    atomic_store(&loop->has_left, true);
    loop->any_finished = true;
}

/* Does something wait too long? */
static bool check_stalls(struct loop *loop, struct hvd_error *err, int *rcp)
{
    if (*rcp != HVD_OK || loop->stall_check_at_us == INT64_MAX || clock_us() < loop->stall_check_at_us)
        return false;
    loop->stall_check_at_us = INT64_MAX;
    *rcp = negotiate_check_stalls(loop->negotiate, clock_us(), err);
    return true;
}

static bool run_round(void *arg)
{
    struct loop *loop = arg;
    struct hvd_error err;
    int rc = HVD_OK;
    if (atomic_load_explicit(&loop->failed, memory_order_relaxed) != HVD_OK)
        return fail_round(loop);
    bool moved = negotiation_submit(loop, &err, &rc);
    moved |= receive_messages(loop, &err, &rc);
    moved |= check_stalls(loop, &err, &rc);
    moved |= send_messages(loop, &err, &rc);
    moved |= run_batch(loop, &err, &rc);
    if (rc != HVD_OK && !loop->failing) {
        fail_local(loop, rc, err.text);
        moved = true;
    }
    moved |= fail_check_suspicion(loop);
    leave(loop);
    if (loop->any_finished) {
        loop->any_finished = false;
        progress_notify(loop->progress);
    }
    return moved;
}

static void arm_all(void *arg, bool armed)
{
    struct loop *loop = arg;
    if (loop->control->ops->arm != NULL)
        loop->control->ops->arm(loop->control, armed);
    backends_arm(&loop->backends, armed);
}

static void kick_control(void *arg)
{
    struct loop *loop = arg;
    if (loop->control->ops->kick != NULL)
        loop->control->ops->kick(loop->control);
}

static bool is_busy(void *arg)
{
    const struct loop *loop = arg;
    const struct batch *batch = loop->batches;
    return batch != NULL && batch->stage == BATCH_RUN && loop->suspect_at_us == INT64_MAX;
}

static bool must_poll(void *arg)
{
    const struct loop *loop = arg;
    return is_busy(arg) && backend_table[loop->batches->backend]->polled;
}

static bool has_sockets(void *arg)
{
    const struct loop *loop = arg;
    return loop->backends.env.shape->node_count > 1 || loop->backends.used[BACKEND_TCP];
}

/* How to wait, as the option says. */
static struct wait_policy wait_policy_of(const struct backend_env *env)
{
    static const int64_t spin_us[] = {
        [PROGRESS_MODE_ADAPTIVE] = SPIN_US, [PROGRESS_MODE_SPIN] = INT64_MAX, [PROGRESS_MODE_BLOCK] = 0};
    return (struct wait_policy){.spin_us = spin_us[env->config->progress],
                                .oversubscribed = env->oversubscribed,
                                .no_spare_core = env->no_spare_core};
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static int64_t next_deadline(void *arg)
{
    struct loop *loop = arg;
    bool over = atomic_load(&loop->failed) != HVD_OK;
    loop->stall_check_at_us = over ? INT64_MAX : negotiate_deadline(loop->negotiate, clock_us());
    return sooner(loop->stall_check_at_us, sooner(loop->suspect_at_us, loop->kill_at_us));
}

static int create_parts(struct loop *loop, const struct backend_env *env, int64_t deadline_us,
                        struct hvd_error *err)
{
    struct backend_env own = *env;
    struct negotiate_params params = {.rank = loop->control->rank,
                                      .size = loop->control->size,
                                      .root = loop->control->parent < 0,
                                      .child_count = loop->control->child_count,
                                      .child_ranks = loop->control->child_ranks,
                                      .stall_warn_us = env->config->stall_warn_us,
                                      .stall_abort_us = env->config->stall_abort_us,
                                      .cache_limit = env->config->cache_limit};
    own.epoll_fd = loop->epoll_fd;
    int rc = HVD_OK;
    if (loop->control->ops->watch != NULL)
        rc = loop->control->ops->watch(loop->control, loop->epoll_fd, err);
    if (rc == HVD_OK)
        rc = backends_open(&loop->backends, &own, deadline_us, err);
    if (rc == HVD_OK)
        rc = set_change_init(loop, err);
    if (rc != HVD_OK)
        return rc;
    trials_begin(loop);
    memcpy(params.backend_order, loop->backends.order, sizeof(params.backend_order));
    rc = negotiate_create(&loop->negotiate, &params, err);
    if (rc == HVD_OK)
        rc = tensor_queue_create(&loop->queue, env->config->cache_limit, err);
    if (rc != HVD_OK)
        return rc;
    struct progress_work work = {.round = run_round,
                                 .arm = arm_all,
                                 .kick = kick_control,
                                 .must_poll = must_poll,
                                 .is_busy = is_busy,
                                 .has_sockets = has_sockets,
                                 .deadline = next_deadline,
                                 .arg = loop,
                                 .epoll_fd = loop->epoll_fd,
                                 .wait_policy = wait_policy_of(env)};
    return progress_create(&loop->progress, &work, err);
}

int loop_create(struct loop **loopp, struct control *control, struct trace *trace,
                const struct backend_env *env, int64_t deadline_us, struct hvd_error *err)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the loop");
    loop->control = control;
    loop->trace = trace;
    loop->batch_tail = &loop->batches;
    loop->stall_check_at_us = INT64_MAX;
    loop->suspect_at_us = INT64_MAX;
    loop->kill_at_us = INT64_MAX;
    loop->kill_signal = SIGTERM;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = loop->epoll_fd < 0 ? error_set_errno(err, "cannot make the descriptor that the loop sleeps on")
                                : HVD_OK;
    if (rc == HVD_OK)
        rc = create_parts(loop, env, deadline_us, err);
    if (rc != HVD_OK) {
        loop_destroy(loop);
        return rc;
    }
    *loopp = loop;
    return HVD_OK;
}

void loop_destroy(struct loop *loop)
{
    if (loop == NULL)
        return;
    progress_destroy(loop->progress);
    run_discard(loop);
    set_change_close(loop);
    backends_close(&loop->backends);
    negotiate_destroy(loop->negotiate);
    tensor_queue_destroy(loop->queue);
    free(loop->buffer);
    free(loop->decided.items);
    free(loop->decided.tensors);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    free(loop);
}

void loop_after_fork(struct loop *loop)
{
    close(loop->epoll_fd);
    backends_after_fork(&loop->backends);
    progress_after_fork(loop->progress);
    if (loop->control->ops->after_fork != NULL)
        loop->control->ops->after_fork(loop->control);
}

/* ---- Callers ------------------------------------------------------------------------------------ */

/* What the trace wants to know of it. */
static void fill_trace_op(struct request *request)
{
    struct trace_op *op = &request->trace;
    op->kind = desc_kind_name(request->desc->kind);
    op->name = desc_name(request->desc);
    op->set = request->desc->set;
    op->tensors = request->tensor_count;
    op->bytes = 0;
    for (int i = 0; i < request->tensor_count; i++)
        op->bytes += request->tensors[i].bytes;
}

struct request *loop_reuse(struct loop *loop, hvd_set set, const char *name)
{
    return tensor_queue_reuse(loop->queue, set, name);
}

void loop_discard(struct loop *loop, struct request *request)
{
    tensor_queue_discard(loop->queue, request);
}

/* When it is handed in, for the trace. A look at the clock takes as long as much else of a submission: what
 * is handed in while others still wait to be taken, within the same tick, is given the time of one of these.
 * A timeline gets them all. */
static int64_t submission_us(struct loop *loop)
{
    if (loop->trace == NULL)
        return 0;
    int64_t tick_us = clock_coarse_us();
    if (tensor_queue_has_submissions(loop->queue) && !trace_is_recording(loop->trace) &&
        tick_us == atomic_load_explicit(&loop->burst_tick_us, memory_order_relaxed))
        return atomic_load_explicit(&loop->burst_us, memory_order_relaxed);
    int64_t now_us = clock_us();
    atomic_store_explicit(&loop->burst_us, now_us, memory_order_relaxed);
    atomic_store_explicit(&loop->burst_tick_us, tick_us, memory_order_relaxed);
    return now_us;
}

int loop_submit(struct loop *loop, struct request *request, bool kick, hvd_handle *handlep,
                struct hvd_error *err)
{
    bool first = false;
    int64_t now_us = submission_us(loop);
    fill_trace_op(request);
    trace_submitted(loop->trace, &request->trace, now_us);
    int rc = tensor_queue_submit(loop->queue, request, handlep, &first, err);
    if (rc != HVD_OK)
        trace_done(loop->trace, &request->trace, rc, now_us);
    else if (first && kick)
        progress_kick(loop->progress);
    return rc;
}

int loop_test(struct loop *loop, hvd_handle handle, struct hvd_error *err)
{
    return tensor_queue_test(loop->queue, handle, err);
}

struct handle_wait {
    struct loop *loop;
    hvd_handle handle;
    uint64_t finished; /* of all operations, at the last look */
};

static bool handle_is_done(void *arg)
{
    struct handle_wait *waiting = arg;
    uint64_t finished = tensor_queue_finished_count(waiting->loop->queue);
    if (waiting->finished == finished)
        return false;
    bool done = tensor_queue_test(waiting->loop->queue, waiting->handle, NULL) != HVD_IN_PROGRESS;
    if (!done)
        waiting->finished = finished;
    return done;
}

static uint32_t backends_of_tensor(const struct loop *loop, const struct desc *desc, int index, int size)
{
    struct backend_need need = batch_need(desc, index, size);
    int ppn = set_registry_ppn(loop->set_registry, desc->set);
    uint32_t backends = backends_supporting(&loop->backends, &need, ppn);
    if (desc->kind == DESC_ALLGATHER || desc->kind == DESC_ALLTOALL) {
        need.dtype = need.partial = HVD_INT64;
        backends &= backends_supporting(&loop->backends, &need, ppn);
    }
    return backends;
}

uint32_t loop_backends(const struct loop *loop, const struct desc *desc)
{
    uint32_t backends = set_registry_backends(loop->set_registry, desc->set);
    int size = set_registry_size(loop->set_registry, desc->set);
    if (desc->kind == DESC_SET_ADD)
        return backends_available(&loop->backends);
    if (desc->kind == DESC_JOIN)
        return backends & backends_available(&loop->backends);
    if (desc->kind > DESC_REDUCESCATTER)
        return 0;
    if (desc->kind == DESC_ALLREDUCE && desc->op == HVD_ADASUM && !adasum_supports(size))
        return 0;
    for (int i = 0; i < desc->tensor_count; i++) {
        bool as_before = i > 0 && desc->tensors[i].dtype == desc->tensors[i - 1].dtype;
        if (!as_before)
            backends &= backends_of_tensor(loop, desc, i, size);
    }
    return backends;
}

struct set_registry *loop_set_registry(const struct loop *loop)
{
    return loop->set_registry;
}

bool loop_is_driver(const struct loop *loop)
{
    return progress_is_driver(loop->progress);
}

int loop_wait(struct loop *loop, hvd_handle handle, struct hvd_error *err)
{
    struct handle_wait waiting = {loop, handle, UINT64_MAX};
    if (loop_is_driver(loop))
        return error_set(err, HVD_ERR_STATE,
                         "hvd_wait was called inside a callback, where nothing can make progress; "
                         "submit there and wait elsewhere");
    int status = tensor_queue_test_and_release(loop->queue, handle, err);
    if (status != HVD_IN_PROGRESS)
        return status;
    progress_drive(loop->progress, handle_is_done, &waiting);
    return tensor_queue_test_and_release(loop->queue, handle, err);
}

static bool job_is_over(void *arg)
{
    struct loop *loop = arg;
    return atomic_load(&loop->failed) != HVD_OK || atomic_load(&loop->has_left);
}

int loop_leave(struct loop *loop, struct hvd_error *err)
{
    atomic_store_explicit(&loop->leave_requested, true, memory_order_release);
    progress_kick(loop->progress);
    progress_drive(loop->progress, job_is_over, loop);
    int status = atomic_load(&loop->failed);
    return status == HVD_OK ? HVD_OK : error_set(err, status, "%s", loop->failure.text);
}
