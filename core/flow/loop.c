/* loop.c: the path of a tensor: one round takes every operation one step further. */
#include "flow/loop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/batch.h"
#include "flow/baton.h"
#include "flow/finish.h"
#include "flow/fuse.h"
#include "flow/negotiate.h"
#include "plane/set.h"

/* The root decides on more only while fewer batches than this wait: what becomes ready meanwhile is fused
 * into one, which is how a backlog makes larger operations and a lone tensor never waits. */
#define BATCHES_AHEAD 2

/* Messages taken in one round before data gets its turn. */
#define MESSAGES_PER_ROUND 64

/* How long a waiting caller looks for news before it sleeps. */
#define SPIN_US 50

/* A plane sees that a connection ended, not why. The control tree, which watches processes, gets this long to
 * say it first: otherwise ranks that leave because of the first loss would be taken for the cause. */
#define SUSPICION_US INT64_C(1000000)

/* Between SIGTERM and SIGKILL of our own process, after a rank was lost and nobody left. */
#define KILL_GRACE_US INT64_C(5000000)

struct loop {
    struct control *control;
    struct plane_set planes;
    struct negotiate *negotiate;
    struct queue *queue;
    struct baton *baton;
    int epoll_fd;
    /* what follows belongs to the holder of the baton, unless atomic */
    struct batch *batches, **batch_tail; /* in the agreed order; the first one runs */
    int batch_count;
    uint64_t batch_sequence;
    void *buffer; /* for fused batches; grows to what was needed */
    int64_t buffer_bytes;
    struct fuse_item *items; /* of one message of decisions */
    struct request **item_requests;
    int *item_batches;
    int item_count, item_capacity;
    bool finished_some; /* in this round: callers must look */
    _Atomic bool leave_asked;
    bool leave_said;
    bool all_left;
    _Atomic bool gone;  /* all left, and our last words are out */
    bool failing;       /* the abort is on its way */
    _Atomic int failed; /* HVD_OK, or why the job cannot go on */
    struct hvd_error failure;
    int64_t suspect_at_us; /* when to believe the plane; INT64_MAX: it suspects nobody */
    int suspect_rank;
    struct hvd_error suspicion;
    int64_t kill_at_us; /* when to end this process; INT64_MAX: not */
    int kill_signal;
};

/* The job cannot go on: every rank hears of it, this one by the event that comes back. */
static void fail_job(struct loop *loop, int status, int rank, const char *sentence)
{
    if (loop->failing)
        return;
    loop->failing = true;
    loop->control->ops->abort(loop->control, status, rank, sentence);
}

/* The same, for what went wrong here. */
static void fail_here(struct loop *loop, int status, const char *sentence)
{
    char name[300];
    struct hvd_error full;
    roster_name(loop->planes.env.roster, loop->control->rank, name, sizeof(name));
    error_set(&full, status, "%s cannot go on: %s", name, sentence);
    fail_job(loop, status, loop->control->rank, full.text);
}

static void end_request(struct loop *loop, struct request *request, int status, const char *reason)
{
    loop->finished_some = true;
    finish_request(loop->queue, request, status, reason);
}

static void end_undecided(struct loop *loop, int status, const char *reason)
{
    loop->finished_some = true;
    queue_refuse(loop->queue, status, reason);
    finish_undecided(loop->queue, status, reason);
}

/* ---- 1 queue -> 2 negotiate ------------------------------------------------------------------ */

static int say_leaving(struct loop *loop, struct hvd_error *err)
{
    struct desc desc = {.kind = DESC_SHUTDOWN, .name = DESC_SHUTDOWN_NAME};
    loop->leave_said = true;
    negotiate_leave(loop->negotiate);
    return negotiate_submit(loop->negotiate, &desc, NULL, err);
}

static bool submit_requests(struct loop *loop, struct hvd_error *err, int *rcp)
{
    struct request *request = queue_take(loop->queue);
    bool moved = request != NULL;
    for (; request != NULL && *rcp == HVD_OK; request = request->next)
        *rcp = negotiate_submit(loop->negotiate, &request->desc, request, err);
    if (*rcp == HVD_OK && !loop->leave_said &&
        atomic_load_explicit(&loop->leave_asked, memory_order_acquire)) {
        *rcp = say_leaving(loop, err);
        moved = true;
    }
    return moved;
}

/* ---- 2 negotiate -> 3 fuse ------------------------------------------------------------------- */

static bool room_for_item(struct loop *loop)
{
    if (loop->item_count < loop->item_capacity)
        return true;
    int capacity = 2 * loop->item_capacity + 64;
    struct fuse_item *items = reallocarray(loop->items, (size_t)capacity, sizeof(*items));
    if (items != NULL)
        loop->items = items;
    struct request **requests = reallocarray(loop->item_requests, (size_t)capacity, sizeof(*requests));
    if (requests != NULL)
        loop->item_requests = requests;
    int *batches = reallocarray(loop->item_batches, (size_t)capacity, sizeof(*batches));
    if (batches != NULL)
        loop->item_batches = batches;
    if (items == NULL || requests == NULL || batches == NULL)
        return false;
    loop->item_capacity = capacity;
    return true;
}

static bool take_run(struct loop *loop, const struct decision *decision)
{
    struct request *request = decision->user;
    if (decision->desc->kind == DESC_SHUTDOWN) {
        loop->control->ops->farewell(loop->control);
        loop->all_left = true;
        return true;
    }
    if (decision->desc->kind == DESC_BARRIER) {
        end_request(loop, request, HVD_OK, NULL);
        return true;
    }
    if (!room_for_item(loop))
        return false;
    request->decided = true;
    loop->items[loop->item_count] = (struct fuse_item){&request->desc, decision->plane, request->bytes};
    loop->item_requests[loop->item_count++] = request;
    return true;
}

/* The batch of the [i]th item, made where the item is its first. */
static struct batch *batch_of_item(struct loop *loop, struct batch **made, int i)
{
    struct batch **batchp = &made[loop->item_batches[i]];
    if (*batchp == NULL) {
        *batchp = batch_create(loop->item_requests[i], loop->items[i].plane, loop->control->rank);
        if (*batchp == NULL)
            return NULL;
        *loop->batch_tail = *batchp;
        loop->batch_tail = &(*batchp)->next;
        loop->batch_count++;
    }
    return *batchp;
}

/* Cut what one message decided into batches. Without memory the items that are in none stay where they are.
 */
static bool fuse_items(struct loop *loop)
{
    int count =
        fuse_plan(loop->items, loop->item_count, loop->planes.env.config->fusion_bytes, loop->item_batches);
    struct batch **made = calloc((size_t)count, sizeof(struct batch *));
    int done = 0;
    while (made != NULL && done < loop->item_count) {
        struct batch *batch = batch_of_item(loop, made, done);
        if (batch == NULL)
            break;
        batch_add(batch, loop->item_requests[done++]);
    }
    loop->item_count -= done;
    memmove(loop->item_requests, loop->item_requests + done,
            (size_t)loop->item_count * sizeof(*loop->item_requests));
    free(made);
    return loop->item_count == 0;
}

static int take_decisions(struct loop *loop, struct hvd_error *err)
{
    struct decision decision;
    bool good = true;
    while (good && negotiate_next(loop->negotiate, &decision)) {
        char name[300];
        struct hvd_error reason;
        switch (decision.kind) {
        case DECISION_RUN:
            good = take_run(loop, &decision);
            break;
        case DECISION_MISMATCH:
            loop->finished_some = true;
            finish_mismatch(loop->queue, loop->planes.env.roster, &decision);
            break;
        case DECISION_LEAVING:
            roster_name(loop->planes.env.roster, decision.rank, name, sizeof(name));
            error_set(&reason, HVD_OK, "%s has called hvd_shutdown", name);
            end_undecided(loop, HVD_ERR_SHUTDOWN, reason.text);
            break;
        }
        if (good && decision.last && loop->item_count > 0)
            good = fuse_items(loop);
    }
    return good ? HVD_OK : error_set(err, HVD_ERR_NO_MEMORY, "no memory left to plan the next operations");
}

/* ---- control <-> 2 negotiate ----------------------------------------------------------------- */

static int send_to_children(struct loop *loop, const void *bytes, size_t length, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int link = 1; link <= loop->control->child_count && rc == HVD_OK; link++)
        rc = loop->control->ops->send(loop->control, link, bytes, length, err);
    return rc;
}

static int take_message(struct loop *loop, const struct control_event *event, struct hvd_error *err)
{
    if (event->link != CONTROL_PARENT)
        return negotiate_from_child(loop->negotiate, event->link - 1, event->bytes, event->length, err);
    int rc = send_to_children(loop, event->bytes, event->length, err);
    if (rc == HVD_OK)
        rc = negotiate_from_parent(loop->negotiate, event->bytes, event->length, err);
    if (rc == HVD_OK)
        rc = take_decisions(loop, err);
    return rc;
}

static void take_abort(struct loop *loop, const struct control_event *event);

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
            take_abort(loop, &event);
        else
            *rcp = take_message(loop, &event, err);
    }
    return moved;
}

static bool send_news(struct loop *loop, struct hvd_error *err, int *rcp)
{
    const void *bytes = NULL;
    size_t length = 0;
    bool root = loop->control->parent < 0;
    if (*rcp != HVD_OK || atomic_load(&loop->failed) != HVD_OK ||
        (root && loop->batch_count >= BATCHES_AHEAD))
        return false;
    *rcp = negotiate_say(loop->negotiate, &bytes, &length, err);
    if (*rcp != HVD_OK || length == 0)
        return false;
    if (root)
        *rcp = send_to_children(loop, bytes, length, err);
    else
        *rcp = loop->control->ops->send(loop->control, CONTROL_PARENT, bytes, length, err);
    if (*rcp == HVD_OK && root)
        *rcp = take_decisions(loop, err);
    return true;
}

/* ---- 3 fuse -> 4 plane -> 5 finish ------------------------------------------------------------ */

/* The fusion buffer, as large as the largest batch so far. */
static bool have_buffer(struct loop *loop, int64_t bytes)
{
    if (bytes <= loop->buffer_bytes)
        return true;
    void *buffer = NULL;
    if (posix_memalign(&buffer, 4096, (size_t)bytes) != 0)
        return false;
    free(loop->buffer);
    loop->buffer = buffer;
    loop->buffer_bytes = bytes;
    return true;
}

static int start_batch(struct loop *loop, struct batch *batch, struct hvd_error *err)
{
    if (batch_needs_buffer(batch) && !have_buffer(loop, batch->bytes))
        return error_set(err, HVD_ERR_NO_MEMORY,
                         "no memory for a fusion buffer of %lld bytes; lower --hvd-fusion",
                         (long long)batch->bytes);
    batch_ready(batch, loop->buffer, ++loop->batch_sequence);
    return HVD_OK;
}

static void end_batch(struct loop *loop, int status, const char *reason)
{
    struct batch *batch = loop->batches;
    struct request *next = NULL;
    loop->batches = batch->next;
    if (loop->batches == NULL)
        loop->batch_tail = &loop->batches;
    loop->batch_count--;
    for (struct request *request = batch->members; request != NULL; request = next) {
        next = request->next;
        end_request(loop, request, status, reason);
    }
    batch_free(batch);
}

static int run_plane(struct loop *loop, struct batch *batch, bool *movedp, struct hvd_error *err)
{
    int lost_rank = loop->control->rank;
    int rc = plane_set_test(&loop->planes, batch->plane, movedp, &lost_rank, err);
    if (rc == HVD_OK) {
        *movedp = true;
        batch->stage = batch_needs_buffer(batch) ? BATCH_UNPACK : BATCH_DONE;
        batch->at = batch->members;
        batch->inside_bytes = batch->buffer_bytes = 0;
    } else if (rc == HVD_ERR_RANK_LOST) {
        loop->suspect_at_us = clock_us() + SUSPICION_US;
        loop->suspect_rank = lost_rank;
        loop->suspicion = *err;
    } else if (rc != HVD_IN_PROGRESS) {
        return rc;
    }
    return HVD_OK;
}

/* One step of the batch whose turn it is. */
static bool run_batch(struct loop *loop, struct hvd_error *err, int *rcp)
{
    struct batch *batch = loop->batches;
    bool moved = true;
    bool suspended = loop->failing || loop->suspect_at_us != INT64_MAX;
    if (batch == NULL || *rcp != HVD_OK || suspended || atomic_load(&loop->failed) != HVD_OK)
        return false;
    if (batch->travel.sequence == 0)
        *rcp = start_batch(loop, batch, err);
    if (*rcp != HVD_OK)
        return moved;
    switch (batch->stage) {
    case BATCH_PACK:
        batch_pack(batch);
        break;
    case BATCH_START:
        *rcp = plane_set_start(&loop->planes, batch->plane, &batch->travel, err);
        batch->stage = BATCH_RUN;
        break;
    case BATCH_RUN:
        moved = false;
        *rcp = run_plane(loop, batch, &moved, err);
        break;
    case BATCH_UNPACK:
        batch_unpack(batch);
        break;
    case BATCH_DONE:
        end_batch(loop, HVD_OK, NULL);
        break;
    }
    return moved;
}

/* ---- The end of a job that cannot go on -------------------------------------------------------- */

static void take_abort(struct loop *loop, const struct control_event *event)
{
    const struct plane_env *env = &loop->planes.env;
    log_write(env->log, LOG_ERROR, "job", "%s", event->sentence);
    loop->suspect_at_us = INT64_MAX;
    error_set(&loop->failure, event->status, "%s", event->sentence);
    atomic_store(&loop->failed, event->status);
    if (env->config->kill_wait_us > 0)
        loop->kill_at_us = clock_us() + env->config->kill_wait_us;
    if (loop->batches != NULL && loop->batches->plane >= 0)
        plane_set_give_up(&loop->planes, loop->batches->plane);
    queue_refuse(loop->queue, event->status, loop->failure.text);
    while (loop->batches != NULL)
        end_batch(loop, event->status, loop->failure.text);
    for (int i = 0; i < loop->item_count; i++)
        end_request(loop, loop->item_requests[i], event->status, loop->failure.text);
    loop->item_count = 0;
    end_undecided(loop, event->status, loop->failure.text);
}

/* The one place where hvd ends a process: a rank was lost, and the program has not left for kill-wait. */
static void end_process(struct loop *loop)
{
    log_write(loop->planes.env.log, LOG_ERROR, "job",
              "this process is still here, kill-wait after the job could not go on; ending it by signal %d",
              loop->kill_signal);
    kill(getpid(), loop->kill_signal);
    loop->kill_at_us = loop->kill_signal == SIGKILL ? INT64_MAX : clock_us() + KILL_GRACE_US;
    loop->kill_signal = SIGKILL;
}

/* ---- 0 loop ------------------------------------------------------------------------------------ */

/* After the end: our last words still have to go out, and nobody else's matter. */
static bool run_failed_round(struct loop *loop)
{
    struct control_event event;
    bool moved = loop->control->ops->receive(loop->control, &event, NULL) == HVD_OK;
    if (clock_us() >= loop->kill_at_us)
        end_process(loop);
    return moved;
}

static bool run_round(void *arg)
{
    struct loop *loop = arg;
    struct hvd_error err;
    int rc = HVD_OK;
    if (atomic_load_explicit(&loop->failed, memory_order_relaxed) != HVD_OK)
        return run_failed_round(loop);
    bool moved = submit_requests(loop, &err, &rc);
    moved |= receive_messages(loop, &err, &rc);
    moved |= send_news(loop, &err, &rc);
    moved |= run_batch(loop, &err, &rc);
    if (rc != HVD_OK && !loop->failing) {
        fail_here(loop, rc, err.text);
        moved = true;
    }
    if (loop->suspect_at_us != INT64_MAX && clock_us() >= loop->suspect_at_us) {
        loop->suspect_at_us = INT64_MAX;
        fail_job(loop, HVD_ERR_RANK_LOST, loop->suspect_rank, loop->suspicion.text);
        moved = true;
    }
    if (loop->all_left && !atomic_load(&loop->gone) && loop->control->ops->flushed(loop->control)) {
        atomic_store(&loop->gone, true);
        loop->finished_some = true;
    }
    if (loop->finished_some) {
        loop->finished_some = false;
        baton_announce(loop->baton);
    }
    return moved;
}

static void arm_control(void *arg, bool armed)
{
    struct loop *loop = arg;
    if (loop->control->ops->arm != NULL)
        loop->control->ops->arm(loop->control, armed);
}

static void kick_control(void *arg)
{
    struct loop *loop = arg;
    if (loop->control->ops->kick != NULL)
        loop->control->ops->kick(loop->control);
}

static bool must_poll(void *arg)
{
    const struct loop *loop = arg;
    const struct batch *batch = loop->batches;
    bool runs = batch != NULL && batch->stage == BATCH_RUN && loop->suspect_at_us == INT64_MAX;
    return runs && plane_table[batch->plane]->polled;
}

static int64_t next_deadline(void *arg)
{
    const struct loop *loop = arg;
    return loop->suspect_at_us < loop->kill_at_us ? loop->suspect_at_us : loop->kill_at_us;
}

static int create_parts(struct loop *loop, const struct plane_env *env, int64_t deadline_us,
                        struct hvd_error *err)
{
    struct plane_env own = *env;
    struct negotiate_place place = {.rank = loop->control->rank,
                                    .size = loop->control->size,
                                    .root = loop->control->parent < 0,
                                    .child_count = loop->control->child_count,
                                    .child_ranks = loop->control->child_ranks};
    own.epoll_fd = loop->epoll_fd;
    int rc = HVD_OK;
    if (loop->control->ops->watch != NULL)
        rc = loop->control->ops->watch(loop->control, loop->epoll_fd, err);
    if (rc == HVD_OK)
        rc = plane_set_open(&loop->planes, &own, deadline_us, err);
    if (rc != HVD_OK)
        return rc;
    memcpy(place.plane_order, loop->planes.order, sizeof(place.plane_order));
    rc = negotiate_create(&loop->negotiate, &place, err);
    if (rc == HVD_OK)
        rc = queue_create(&loop->queue, err);
    if (rc != HVD_OK)
        return rc;
    bool crowded = env->shape->local_size > sysconf(_SC_NPROCESSORS_ONLN);
    struct baton_work work = {.round = run_round,
                              .arm = arm_control,
                              .kick = kick_control,
                              .must_poll = must_poll,
                              .deadline = next_deadline,
                              .arg = loop,
                              .epoll_fd = loop->epoll_fd,
                              .has_sockets = env->job->size > 1,
                              .spin_us = crowded ? 0 : SPIN_US};
    return baton_create(&loop->baton, &work, err);
}

int loop_create(struct loop **loopp, struct control *control, const struct plane_env *env,
                int64_t deadline_us, struct hvd_error *err)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the loop");
    loop->control = control;
    loop->batch_tail = &loop->batches;
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
    plane_set_close(&loop->planes);
    while (loop->batches != NULL) {
        struct batch *batch = loop->batches;
        loop->batches = batch->next;
        batch_free(batch);
    }
    negotiate_destroy(loop->negotiate);
    queue_destroy(loop->queue);
    free(loop->buffer);
    free(loop->items);
    free(loop->item_requests);
    free(loop->item_batches);
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

int loop_submit(struct loop *loop, struct request *request, bool kick, hvd_handle *handlep,
                struct hvd_error *err)
{
    bool first = false;
    int rc = queue_submit(loop->queue, request, handlep, &first, err);
    if (rc == HVD_OK && first && kick)
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
};

static bool handle_is_done(void *arg)
{
    const struct waiting *waiting = arg;
    return queue_test(waiting->loop->queue, waiting->handle, NULL) != HVD_IN_PROGRESS;
}

uint32_t loop_planes(const struct loop *loop, const struct plane_need *need)
{
    return plane_set_can(&loop->planes, need);
}

bool loop_is_driving(const struct loop *loop)
{
    return baton_is_mine(loop->baton);
}

int loop_wait(struct loop *loop, hvd_handle handle, struct hvd_error *err)
{
    struct waiting waiting = {loop, handle};
    if (loop_is_driving(loop))
        return error_set(err, HVD_ERR_STATE,
                         "hvd_wait was called inside a callback, where nothing can make progress; "
                         "submit there and wait elsewhere");
    baton_drive(loop->baton, handle_is_done, &waiting);
    int status = queue_test(loop->queue, handle, err);
    queue_release(loop->queue, handle);
    return status;
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
