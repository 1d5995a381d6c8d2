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

static int take_message(struct loop *loop, const struct control_event *event, struct hvd_error *err)
{
    if (event->link != CONTROL_PARENT)
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
            fail_take(loop, &event);
        else
            *rcp = take_message(loop, &event, err);
    }
    return moved;
}

/* Decide what can be decided here, unless there is enough to do: what becomes ready meanwhile is then decided
 * together. */
static int decide_more(struct loop *loop, struct hvd_error *err)
{
    return loop->batch_count < loop->settings.window ? negotiate_decide(loop->negotiate, err) : HVD_OK;
}

static bool send_news(struct loop *loop, struct hvd_error *err, int *rcp)
{
    bool moved = false;
    int first_link = loop->control->parent < 0 ? CONTROL_PARENT + 1 : CONTROL_PARENT;
    if (*rcp != HVD_OK || atomic_load(&loop->failed) != HVD_OK)
        return false;
    *rcp = decide_more(loop, err);
    for (int link = first_link; link <= loop->control->child_count && *rcp == HVD_OK; link++) {
        const void *bytes = NULL;
        size_t length = 0;
        *rcp = negotiate_say(loop->negotiate, link, &bytes, &length, err);
        if (*rcp != HVD_OK || length == 0)
            continue;
        *rcp = loop->control->ops->send(loop->control, link, bytes, length, err);
        moved = true;
    }
    /* after it was said, so that others are at it too */
    if (*rcp == HVD_OK)
        *rcp = decide_take(loop, err);
    return moved;
}

/* ---- 0 loop ------------------------------------------------------------------------------------ */

/* All ranks leave: say so when nothing is left to do for them, and go when that is out. */
static void leave(struct loop *loop)
{
    if (!loop->all_left || loop->batches != NULL || atomic_load(&loop->gone))
        return;
    if (!loop->farewelled)
        loop->control->ops->farewell(loop->control);
    loop->farewelled = true;
    if (!loop->control->ops->flushed(loop->control))
        return;
    atomic_store(&loop->gone, true);
    loop->finished_some = true;
}

/* Does something wait too long? */
static bool watch_stalls(struct loop *loop, struct hvd_error *err, int *rcp)
{
    if (*rcp != HVD_OK || loop->watch_at_us == INT64_MAX || clock_us() < loop->watch_at_us)
        return false;
    loop->watch_at_us = INT64_MAX;
    *rcp = negotiate_watch(loop->negotiate, clock_us(), err);
    return true;
}

static bool run_round(void *arg)
{
    struct loop *loop = arg;
    struct hvd_error err;
    int rc = HVD_OK;
    if (atomic_load_explicit(&loop->failed, memory_order_relaxed) != HVD_OK)
        return fail_round(loop);
    bool moved = decide_submit(loop, &err, &rc);
    moved |= receive_messages(loop, &err, &rc);
    moved |= watch_stalls(loop, &err, &rc);
    moved |= send_news(loop, &err, &rc);
    moved |= run_batch(loop, &err, &rc);
    if (rc != HVD_OK && !loop->failing) {
        fail_here(loop, rc, err.text);
        moved = true;
    }
    moved |= fail_check_suspicion(loop);
    leave(loop);
    if (loop->finished_some) {
        loop->finished_some = false;
        baton_announce(loop->baton);
    }
    return moved;
}

static void arm_all(void *arg, bool armed)
{
    struct loop *loop = arg;
    if (loop->control->ops->arm != NULL)
        loop->control->ops->arm(loop->control, armed);
    plane_set_arm(&loop->planes, armed);
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
    return is_busy(arg) && plane_table[loop->batches->plane]->polled;
}

static bool has_sockets(void *arg)
{
    const struct loop *loop = arg;
    return loop->planes.env.shape->node_count > 1 || loop->planes.used[PLANE_TCP];
}

/* How to wait, as the option says. */
static struct patience patience_of(const struct plane_env *env)
{
    static const int64_t spin_us[] = {
        [PROGRESS_ADAPTIVE] = SPIN_US, [PROGRESS_SPIN] = INT64_MAX, [PROGRESS_BLOCK] = 0};
    return (struct patience){
        .spin_us = spin_us[env->config->progress], .crowded = env->crowded, .tight = env->tight};
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static int64_t next_deadline(void *arg)
{
    struct loop *loop = arg;
    bool over = atomic_load(&loop->failed) != HVD_OK;
    loop->watch_at_us = over ? INT64_MAX : negotiate_deadline(loop->negotiate, clock_us());
    return sooner(loop->watch_at_us, sooner(loop->suspect_at_us, loop->kill_at_us));
}

static int create_parts(struct loop *loop, const struct plane_env *env, int64_t deadline_us,
                        struct hvd_error *err)
{
    struct plane_env own = *env;
    struct negotiate_place place = {.rank = loop->control->rank,
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
        rc = plane_set_open(&loop->planes, &own, deadline_us, err);
    if (rc == HVD_OK)
        rc = sets_begin(loop, err);
    if (rc != HVD_OK)
        return rc;
    tuning_begin(loop);
    memcpy(place.plane_order, loop->planes.order, sizeof(place.plane_order));
    rc = negotiate_create(&loop->negotiate, &place, err);
    if (rc == HVD_OK)
        rc = queue_create(&loop->queue, env->config->cache_limit, err);
    if (rc != HVD_OK)
        return rc;
    struct baton_work work = {.round = run_round,
                              .arm = arm_all,
                              .kick = kick_control,
                              .must_poll = must_poll,
                              .is_busy = is_busy,
                              .has_sockets = has_sockets,
                              .deadline = next_deadline,
                              .arg = loop,
                              .epoll_fd = loop->epoll_fd,
                              .patience = patience_of(env)};
    return baton_create(&loop->baton, &work, err);
}

int loop_create(struct loop **loopp, struct control *control, struct trace *trace,
                const struct plane_env *env, int64_t deadline_us, struct hvd_error *err)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the loop");
    loop->control = control;
    loop->trace = trace;
    loop->batch_tail = &loop->batches;
    loop->watch_at_us = INT64_MAX;
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
    baton_destroy(loop->baton);
    run_forget(loop);
    sets_close(loop);
    plane_set_close(&loop->planes);
    negotiate_destroy(loop->negotiate);
    queue_destroy(loop->queue);
    free(loop->buffer);
    free(loop->decided.items);
    free(loop->decided.pieces);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    free(loop);
}

void loop_after_fork(struct loop *loop)
{
    close(loop->epoll_fd);
    plane_set_after_fork(&loop->planes);
    baton_after_fork(loop->baton);
    if (loop->control->ops->after_fork != NULL)
        loop->control->ops->after_fork(loop->control);
}

/* ---- Callers ------------------------------------------------------------------------------------ */

/* What the trace wants to know of it. */
static void describe(struct request *request)
{
    struct trace_op *op = &request->trace;
    op->kind = desc_kind_name(request->desc->kind);
    op->name = desc_name(request->desc);
    op->set = request->desc->set;
    op->tensors = request->piece_count;
    op->bytes = 0;
    for (int i = 0; i < request->piece_count; i++)
        op->bytes += request->pieces[i].bytes;
}

struct request *loop_recall(struct loop *loop, hvd_set set, const char *name)
{
    return queue_recall(loop->queue, set, name);
}

void loop_discard(struct loop *loop, struct request *request)
{
    queue_discard(loop->queue, request);
}

/* When it is handed in, for the trace. A look at the clock takes as long as much else of a submission: what
 * is handed in while others still wait to be taken, within the same tick, is given the time of one of these.
 * A timeline gets them all. */
static int64_t submission_us(struct loop *loop)
{
    if (loop->trace == NULL)
        return 0;
    int64_t tick_us = clock_tick_us();
    if (queue_waits(loop->queue) && !trace_is_watched(loop->trace) &&
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
    describe(request);
    trace_submitted(loop->trace, &request->trace, now_us);
    int rc = queue_submit(loop->queue, request, handlep, &first, err);
    if (rc != HVD_OK)
        trace_done(loop->trace, &request->trace, rc, now_us);
    else if (first && kick)
        baton_kick(loop->baton);
    return rc;
}

int loop_test(struct loop *loop, hvd_handle handle, struct hvd_error *err)
{
    return queue_test(loop->queue, handle, err);
}

struct waiting {
    struct loop *loop;
    hvd_handle handle;
    uint64_t finished; /* of all operations, at the last look */
};

static bool handle_is_done(void *arg)
{
    struct waiting *waiting = arg;
    uint64_t finished = queue_finished(waiting->loop->queue);
    if (waiting->finished == finished)
        return false;
    bool done = queue_test(waiting->loop->queue, waiting->handle, NULL) != HVD_IN_PROGRESS;
    if (!done)
        waiting->finished = finished;
    return done;
}

static uint32_t planes_of_tensor(const struct loop *loop, const struct desc *desc, int index, int size)
{
    struct plane_need need = batch_need(desc, index, size);
    int each = teams_each(loop->teams, desc->set);
    uint32_t planes = plane_set_can(&loop->planes, &need, each);
    if (desc->kind == DESC_ALLGATHER || desc->kind == DESC_ALLTOALL) {
        need.dtype = need.partial = HVD_INT64;
        planes &= plane_set_can(&loop->planes, &need, each);
    }
    return planes;
}

uint32_t loop_planes(const struct loop *loop, const struct desc *desc)
{
    uint32_t planes = teams_planes(loop->teams, desc->set);
    int size = teams_size(loop->teams, desc->set);
    if (desc->kind == DESC_SET_ADD)
        return plane_set_available(&loop->planes);
    if (desc->kind == DESC_JOIN)
        return planes & plane_set_available(&loop->planes);
    if (desc->kind > DESC_REDUCESCATTER)
        return 0;
    if (desc->kind == DESC_ALLREDUCE && desc->op == HVD_ADASUM && !adasum_can(size))
        return 0;
    for (int i = 0; i < desc->tensor_count; i++) {
        bool as_before = i > 0 && desc->tensors[i].dtype == desc->tensors[i - 1].dtype;
        if (!as_before)
            planes &= planes_of_tensor(loop, desc, i, size);
    }
    return planes;
}

struct teams *loop_teams(const struct loop *loop)
{
    return loop->teams;
}

bool loop_is_driving(const struct loop *loop)
{
    return baton_is_mine(loop->baton);
}

int loop_wait(struct loop *loop, hvd_handle handle, struct hvd_error *err)
{
    struct waiting waiting = {loop, handle, UINT64_MAX};
    if (loop_is_driving(loop))
        return error_set(err, HVD_ERR_STATE,
                         "hvd_wait was called inside a callback, where nothing can make progress; "
                         "submit there and wait elsewhere");
    int status = queue_collect(loop->queue, handle, err);
    if (status != HVD_IN_PROGRESS)
        return status;
    baton_drive(loop->baton, handle_is_done, &waiting);
    return queue_collect(loop->queue, handle, err);
}

static bool job_is_over(void *arg)
{
    struct loop *loop = arg;
    return atomic_load(&loop->failed) != HVD_OK || atomic_load(&loop->gone);
}

int loop_leave(struct loop *loop, struct hvd_error *err)
{
    atomic_store_explicit(&loop->leave_asked, true, memory_order_release);
    baton_kick(loop->baton);
    baton_drive(loop->baton, job_is_over, loop);
    int status = atomic_load(&loop->failed);
    return status == HVD_OK ? HVD_OK : error_set(err, status, "%s", loop->failure.text);
}
