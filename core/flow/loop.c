/* loop.c: the path of a tensor: one round takes every operation one step further. */
#include "flow/loop.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/dtype.h"
#include "base/clock.h"
#include "flow/backend_choice.h"
#include "flow/batch/batch_queue.h"
#include "flow/batch/form.h"
#include "flow/batch/persistent.h"
#include "flow/batch/run.h"
#include "flow/failure.h"
#include "flow/finish.h"
#include "flow/messages.h"
#include "flow/negotiation.h"
#include "flow/progress.h"
#include "flow/set_change.h"
#include "flow/trials.h"

/* Messages taken in one round before data gets its turn. */
#define MESSAGES_PER_ROUND 64

/* How long a waiting caller looks for news before it sleeps. */
#define SPIN_US 50

/* How far this rank is with leaving the job. */
struct departure {
    _Atomic bool requested; /* by the program */
    bool farewell_sent;     /* to the other ranks: this one needs nobody any more */
    _Atomic bool complete;  /* and its last messages are out */
};

/* When a burst of submissions began. */
struct submit_burst {
    _Atomic int64_t at_us, tick_us; /* clock_us and clock_coarse_us */
};

/* Everything but what is atomic or locks belongs to the driver. */
struct loop {
    struct control *control;
    struct trace *trace; /* NULL: none */
    struct backends backends;
    struct set_registry *set_registry;
    struct tensor_queue *queue;
    struct negotiation negotiation;
    struct form form;
    struct messages messages;
    struct batch_queue batch_queue;
    struct persistents persistents;
    struct run run;
    struct gpu *gpu;
    struct finish finish;
    struct failure failure;
    struct trials trials;
    struct departure departure;
    struct submit_burst burst;
    struct progress *progress;
    int64_t beat_us; /* when the launcher of an elastic job is to hear of this node next */
    int epoll_fd;
};

/* ---- One round -------------------------------------------------------------------------------- */

static int submit_requests(struct loop *loop, bool *movedp, struct hvd_error *err)
{
    struct request *requests = tensor_queue_take(loop->queue);
    int rc = HVD_OK;
    if (requests != NULL) {
        *movedp = true;
        rc = negotiation_submit(&loop->negotiation, requests, err);
    }
    if (rc == HVD_OK)
        rc = messages_submit(&loop->messages, movedp, err);
    if (rc == HVD_OK && !loop->negotiation.leaving &&
        atomic_load_explicit(&loop->departure.requested, memory_order_acquire) &&
        messages_leave(&loop->messages)) {
        *movedp = true;
        rc = negotiation_leave(&loop->negotiation, err);
    }
    return rc;
}

/* All ranks are told that the job cannot go on: end everything in flight. */
static void abort_job(struct loop *loop, const struct control_event *event)
{
    failure_accept(&loop->failure, event);
    const char *reason = loop->failure.reason.text;
    trace_job_failed(loop->trace, reason); /* before a thread is refused, which may end the process */
    tensor_queue_refuse(loop->queue, event->status, reason);
    trace_dump(loop->trace, reason); /* while it still shows what was in flight */
    if (loop_is_closed(loop))
        backends_forget(&loop->backends);
    run_abandon(&loop->run, event->status, reason);
    messages_end(&loop->messages, TENSOR_QUEUE_ALL_SETS, event->status, reason);
    form_abandon(&loop->form, event->status, reason);
    finish_undecided(&loop->finish, TENSOR_QUEUE_ALL_SETS, event->status, reason);
    progress_notify(loop->progress); /* a caller may wait for the job, and for no operation */
}

static int receive_messages(struct loop *loop, bool *movedp, struct hvd_error *err)
{
    for (int i = 0; i < MESSAGES_PER_ROUND; i++) {
        struct control_event event;
        int rc = loop->control->ops->receive(loop->control, &event, err);
        if (rc == HVD_IN_PROGRESS)
            return HVD_OK;
        *movedp = true;
        if (rc == HVD_OK && event.kind == CONTROL_ABORT) {
            negotiation_take(&loop->negotiation, err); /* small sums need nobody any more */
            abort_job(loop, &event);
            return HVD_OK;
        }
        if (rc == HVD_OK)
            rc = negotiation_receive(&loop->negotiation, &event, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

static bool has_long_steps(const struct loop *loop)
{
    return !batch_queue_is_empty(&loop->batch_queue) || p2p_is_busy(loop->messages.p2p);
}

static int run_stages(struct loop *loop, bool *movedp, struct hvd_error *err)
{
    int rc = submit_requests(loop, movedp, err);
    if (rc == HVD_OK)
        rc = receive_messages(loop, movedp, err);
    if (rc != HVD_OK || failure_status(&loop->failure) != HVD_OK)
        return rc;
    rc = negotiation_check_stalls(&loop->negotiation, movedp, err);
    if (rc == HVD_OK)
        rc = negotiation_advance(&loop->negotiation, movedp, err);
    if (has_long_steps(loop))
        control_ring(loop->control);
    if (rc == HVD_OK)
        rc = run_advance(&loop->run, movedp, err);
    if (rc == HVD_OK)
        rc = messages_advance(&loop->messages, movedp, err);
    return rc;
}

/* All ranks leave, and nothing is left to do for them: say farewell, and go when that is out. */
static void depart(struct loop *loop)
{
    struct departure *departure = &loop->departure;
    if (!loop->negotiation.all_left || !batch_queue_is_empty(&loop->batch_queue) ||
        atomic_load(&departure->complete))
        return;
    if (!departure->farewell_sent)
        loop->control->ops->farewell(loop->control);
    departure->farewell_sent = true;
    if (!loop->control->ops->flushed(loop->control))
        return;
    atomic_store(&departure->complete, true);
    progress_notify(loop->progress);
}

/* The program has closed descriptors of hvd. */
static void handle_closed(void *arg)
{
    struct loop *loop = arg;
    int rank = loop->control->rank;
    char name[300];
    struct hvd_error lost;
    peer_table_rank_name(loop->backends.env.peer_table, rank, name, sizeof(name));
    error_set(
        &lost, HVD_ERR_RANK_LOST,
        "%s was lost: a descriptor of hvd was closed by the program, which may close only those that it "
        "opened; or let it call hvd_shutdown before it closes all",
        name);
    failure_announce(&loop->failure, HVD_ERR_RANK_LOST, rank, lost.text);
}

static bool run_round(void *arg)
{
    struct loop *loop = arg;
    struct hvd_error err;
    bool moved = false;
    if (failure_status(&loop->failure) != HVD_OK)
        return failure_round(&loop->failure);
    int rc = run_stages(loop, &moved, &err);
    if (rc != HVD_OK && !loop->failure.announced) {
        if (progress_is_closed(loop->progress))
            handle_closed(loop);
        else
            failure_announce_own(&loop->failure, rc, err.text);
        moved = true;
    }
    moved |= failure_check_suspicion(&loop->failure);
    depart(loop);
    if (loop->finish.any_finished) {
        loop->finish.any_finished = false;
        progress_notify(loop->progress);
    }
    return moved;
}

/* ---- What the driver asks between rounds ------------------------------------------------------- */

static void arm_all(void *arg, bool armed)
{
    struct loop *loop = arg;
    if (loop->control->ops->arm != NULL)
        loop->control->ops->arm(loop->control, armed);
    backends_arm(&loop->backends, armed);
    batch_queue_arm(&loop->batch_queue, armed);
    p2p_arm(loop->messages.p2p, armed);
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
    return run_is_busy(&loop->run) || p2p_is_busy(loop->messages.p2p);
}

static bool must_poll(void *arg)
{
    const struct loop *loop = arg;
    return run_must_poll(&loop->run);
}

static void look_at_all(void *arg, bool any)
{
    struct loop *loop = arg;
    p2p_look(loop->messages.p2p);
    if (any && loop->control->ops->look != NULL)
        loop->control->ops->look(loop->control);
}

static bool has_sockets(void *arg)
{
    const struct loop *loop = arg;
    return loop->backends.env.shape->node_count > 1 || loop->backends.used[BACKEND_TCP] ||
           p2p_has_sockets(loop->messages.p2p);
}

static bool has_woken(void *arg)
{
    struct loop *loop = arg;
    const struct control_ops *ops = loop->control->ops;
    bool by_control = ops->has_woken != NULL && ops->has_woken(loop->control);
    return p2p_has_woken(loop->messages.p2p) || by_control;
}

/* The leader of a node tells the launcher of an elastic job that it runs. A driver asks when it must wake as
 * often as it can: before it sleeps, and again and again while it does not. */
static int64_t beat_deadline(struct loop *loop)
{
    const struct peer_table *peer_table = loop->backends.env.peer_table;
    int rank = loop->control->rank;
    if (peer_table->tell_launcher == NULL || peer_table->node_of_rank[rank] != rank)
        return INT64_MAX;
    int64_t now_us = clock_us();
    if (now_us >= loop->beat_us) {
        peer_table->tell_launcher();
        loop->beat_us = now_us + beat_interval_us(peer_table->lease_us);
    }
    return loop->beat_us;
}

static int64_t next_deadline(void *arg)
{
    struct loop *loop = arg;
    bool failed = failure_status(&loop->failure) != HVD_OK;
    int64_t stall_us = failed ? INT64_MAX : negotiation_deadline(&loop->negotiation);
    int64_t failure_us = failure_deadline(&loop->failure);
    int64_t batch_us = failed ? INT64_MAX : run_deadline(&loop->run);
    int64_t message_us =
        failed || failure_is_suspected(&loop->failure) ? INT64_MAX : messages_deadline(&loop->messages);
    int64_t first_us = stall_us < failure_us ? stall_us : failure_us;
    int64_t data_us = batch_us < message_us ? batch_us : message_us;
    int64_t work_us = data_us < first_us ? data_us : first_us;
    int64_t beat_us = beat_deadline(loop);
    return beat_us < work_us ? beat_us : work_us;
}

/* ---- Beginning and end ------------------------------------------------------------------------- */

/* The rank that failed first, as the launcher says; -1: it says nothing, or the rank is in another job. */
static int first_failed(const void *arg)
{
    const struct loop *loop = arg;
    const struct hvd_job *job = loop->backends.env.job;
    int launcher_rank = trace_verdict(loop->trace);
    if (launcher_rank < 0 || job->launcher_ranks == NULL)
        return launcher_rank;
    for (int rank = 0; rank < job->size; rank++) {
        if (job->launcher_ranks[rank] == launcher_rank)
            return rank;
    }
    return -1;
}

static void connect_stages(struct loop *loop)
{
    loop->control->verdict = (struct control_verdict){first_failed, loop};
    loop->finish.control = loop->control;
    loop->finish.queue = loop->queue;
    loop->finish.trace = loop->trace;
    failure_init(&loop->failure, loop->control, &loop->backends.env);
    loop->batch_queue = (struct batch_queue){.trials = &loop->trials, .finish = &loop->finish};
    batch_queue_init(&loop->batch_queue);
    loop->persistents =
        (struct persistents){.batch_queue = &loop->batch_queue, .finish = &loop->finish, .gpu = loop->gpu};
    persistents_init(&loop->persistents);
    loop->run = (struct run){.control = loop->control,
                             .backends = &loop->backends,
                             .set_registry = loop->set_registry,
                             .failure = &loop->failure,
                             .gpu = loop->gpu,
                             .batch_queue = &loop->batch_queue,
                             .persistents = &loop->persistents};
    run_init(&loop->run);
    loop->form = (struct form){.settings = &loop->negotiation.settings,
                               .set_registry = loop->set_registry,
                               .batch_queue = &loop->batch_queue,
                               .finish = &loop->finish,
                               .gpu = loop->gpu};
    loop->messages.set_registry = loop->set_registry;
    loop->messages.failure = &loop->failure;
    loop->messages.finish = &loop->finish;
    loop->negotiation = (struct negotiation){.control = loop->control,
                                             .set_registry = loop->set_registry,
                                             .failure = &loop->failure,
                                             .trials = &loop->trials,
                                             .batch_queue = &loop->batch_queue,
                                             .run = &loop->run,
                                             .form = &loop->form,
                                             .messages = &loop->messages,
                                             .finish = &loop->finish};
}

static struct wait_policy wait_policy_of(const struct backend_env *env)
{
    static const int64_t spin_us[] = {
        [PROGRESS_MODE_ADAPTIVE] = SPIN_US, [PROGRESS_MODE_SPIN] = INT64_MAX, [PROGRESS_MODE_BLOCK] = 0};
    return (struct wait_policy){.spin_us = spin_us[env->config->progress],
                                .oversubscribed = env->oversubscribed,
                                .no_spare_core = env->no_spare_core};
}

static int start_progress(struct loop *loop, struct hvd_error *err)
{
    struct progress_work work = {.round = run_round,
                                 .arm = arm_all,
                                 .kick = kick_control,
                                 .must_poll = must_poll,
                                 .is_busy = is_busy,
                                 .drained = look_at_all,
                                 .has_sockets = has_sockets,
                                 .has_woken = has_woken,
                                 .deadline = next_deadline,
                                 .closed = handle_closed,
                                 .arg = loop,
                                 .epoll_fd = loop->epoll_fd,
                                 .wait_policy = wait_policy_of(&loop->backends.env)};
    return progress_create(&loop->progress, &work, err);
}

static int create_parts(struct loop *loop, const struct backend_env *env, int64_t deadline_us,
                        struct hvd_error *err)
{
    struct control *control = loop->control;
    struct backend_env own_env = *env;
    int rc = HVD_OK;
    own_env.epoll_fd = loop->epoll_fd;
    if (control->ops->watch != NULL)
        rc = control->ops->watch(control, loop->epoll_fd, err);
    if (rc == HVD_OK)
        rc = backends_open(&loop->backends, &own_env, deadline_us, err);
    if (rc == HVD_OK)
        rc = set_change_init(&loop->set_registry, &loop->backends, control->rank, control->size, err);
    if (rc == HVD_OK)
        rc = tensor_queue_create(&loop->queue, env->config->cache_limit, err);
    if (rc == HVD_OK)
        rc = gpu_create(&loop->gpu, &own_env, err);
    if (rc == HVD_OK)
        rc = messages_init(&loop->messages, &loop->backends, loop->gpu, err);
    if (rc != HVD_OK)
        return rc;
    connect_stages(loop);
    rc = negotiation_init(&loop->negotiation, env->config, loop->backends.order, err);
    if (rc != HVD_OK)
        return rc;
    trials_init(&loop->trials, &loop->backends.env, control->parent < 0, &loop->negotiation.settings);
    return start_progress(loop, err);
}

int loop_create(struct loop **loopp, struct control *control, struct trace *trace,
                const struct backend_env *env, int64_t deadline_us, struct hvd_error *err)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the loop");
    loop->control = control;
    loop->trace = trace;
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

bool loop_is_closed(const struct loop *loop)
{
    return progress_is_closed(loop->progress);
}

bool loop_abandon(struct loop *loop)
{
    if (loop == NULL || !loop_is_closed(loop))
        return false;
    progress_stop(loop->progress);
    return true;
}

void loop_destroy(struct loop *loop)
{
    if (loop == NULL)
        return;
    progress_destroy(loop->progress);
    loop->control->verdict = (struct control_verdict){NULL, NULL};
    persistents_fini(&loop->persistents);
    run_fini(&loop->run);
    form_fini(&loop->form);
    negotiation_fini(&loop->negotiation);
    messages_fini(&loop->messages);
    set_change_close(&loop->set_registry, &loop->backends);
    backends_close(&loop->backends);
    tensor_queue_destroy(loop->queue);
    gpu_destroy(loop->gpu);
    descriptors_close(&loop->epoll_fd);
    free(loop);
}

void loop_after_fork(struct loop *loop)
{
    close(loop->epoll_fd);
    backends_after_fork(&loop->backends);
    p2p_after_fork(loop->messages.p2p);
    if (loop->gpu != NULL)
        gpu_after_fork(loop->gpu);
    progress_after_fork(loop->progress);
    if (loop->control->ops->after_fork != NULL)
        loop->control->ops->after_fork(loop->control);
}

/* ---- Calls of any thread ----------------------------------------------------------------------- */

struct tensor_queue *loop_tensor_queue(const struct loop *loop)
{
    return loop->queue;
}

struct set_registry *loop_set_registry(const struct loop *loop)
{
    return loop->set_registry;
}

struct gpu *loop_gpu(const struct loop *loop)
{
    return loop->gpu;
}

uint32_t loop_backends(const struct loop *loop, const struct desc *desc)
{
    const struct nccl_use nccl = gpu_nccl_use(loop->gpu);
    return backend_choice(&loop->backends, loop->set_registry, &nccl, desc);
}

int loop_check_not_in_callback(const struct loop *loop, const char *call, struct hvd_error *err)
{
    if (!progress_is_driver(loop->progress))
        return HVD_OK;
    return error_set(err, HVD_ERR_STATE,
                     "%s waits, and must not be called inside a callback, in which no operation makes "
                     "progress; call it outside the callback",
                     call);
}

static void fill_trace_op(struct request *request)
{
    struct trace_op *op = &request->trace;
    op->kind = desc_kind_name(request->desc->kind);
    op->name = desc_name(request->desc);
    op->set = request->desc->set;
    op->tensors = request->tensor_count;
    op->bytes = 0;
    for (int i = 0; i < request->tensor_count; i++)
        op->bytes = bytes_add(op->bytes, request->tensors[i].bytes);
}

/* The time of a submission, for the trace. Reading the clock is a large part of what a submission costs. So a
 * request that is submitted within the same tick as one that still waits to be taken gets the time of the
 * first of such a burst. A timeline gets the exact times. */
static int64_t submission_us(struct loop *loop)
{
    struct submit_burst *burst = &loop->burst;
    if (loop->trace == NULL)
        return 0;
    int64_t tick_us = clock_coarse_us();
    if (tensor_queue_has_submissions(loop->queue) && !trace_is_recording(loop->trace) &&
        tick_us == atomic_load_explicit(&burst->tick_us, memory_order_relaxed))
        return atomic_load_explicit(&burst->at_us, memory_order_relaxed);
    int64_t now_us = clock_us();
    atomic_store_explicit(&burst->at_us, now_us, memory_order_relaxed);
    atomic_store_explicit(&burst->tick_us, tick_us, memory_order_relaxed);
    return now_us;
}

/* Count the request before the check: a start that is captured at this moment then waits for it, or the check
 * sees that start and refuses the request. */
static int admit(struct loop *loop, struct request *request, struct hvd_error *err)
{
    finish_count(&loop->finish, request);
    int rc = request->is_counted ? persistents_check(&loop->persistents, request->desc, err) : HVD_OK;
    if (rc != HVD_OK)
        finish_uncount(&loop->finish, request);
    return rc;
}

/* Put an admitted request into the queue. */
static int enqueue(struct loop *loop, struct request *request, hvd_handle *handlep, bool *firstp,
                   struct hvd_error *err)
{
    int64_t now_us = submission_us(loop);
    fill_trace_op(request);
    trace_submitted(loop->trace, &request->trace, now_us);
    int rc = tensor_queue_submit(loop->queue, request, handlep, firstp, err);
    if (rc != HVD_OK) {
        finish_uncount(&loop->finish, request);
        trace_done(loop->trace, &request->trace, rc, now_us);
    }
    return rc;
}

int loop_submit(struct loop *loop, struct request *request, bool kick, hvd_handle *handlep,
                struct hvd_error *err)
{
    bool first = false;
    int rc = admit(loop, request, err);
    if (rc == HVD_OK)
        rc = enqueue(loop, request, handlep, &first, err);
    if (rc != HVD_OK)
        tensor_queue_discard(loop->queue, request);
    else if (first && kick)
        progress_kick(loop->progress);
    return rc;
}

struct handle_wait {
    struct tensor_queue *queue;
    hvd_handle handle;
    struct gpu_event *end; /* of the operation, where it was launched */
    uint64_t finished;     /* how many operations of this rank had finished at the last test */
    bool done;             /* at that test */
};

static bool handle_is_done(void *arg)
{
    struct handle_wait *wait = arg;
    uint64_t finished = tensor_queue_finished_count(wait->queue);
    if (wait->done || wait->finished == finished)
        return wait->done;
    wait->done = tensor_queue_test(wait->queue, wait->handle, NULL) != HVD_IN_PROGRESS;
    wait->finished = finished;
    return wait->done;
}

/* Is it done, or launched? Then it has an end. */
static bool handle_is_launched(void *arg)
{
    struct handle_wait *wait = arg;
    uint64_t finished = tensor_queue_finished_count(wait->queue);
    if (wait->end != NULL || wait->finished == finished)
        return wait->end != NULL;
    if (tensor_queue_test_launched(wait->queue, wait->handle, &wait->end, NULL) != HVD_IN_PROGRESS)
        return true;
    wait->finished = finished;
    return false;
}

int loop_wait_on_stream(struct loop *loop, hvd_handle handle, void *stream, int64_t until_us,
                        struct hvd_error *err)
{
    struct handle_wait wait = {.queue = loop->queue, .handle = handle, .finished = UINT64_MAX};
    int status = loop_check_not_in_callback(loop, "hvd_wait_on_stream", err);
    if (status == HVD_OK && tensor_queue_is_on_gpu(loop->queue, handle))
        status = gpu_check_stream(loop->gpu, stream, err);
    if (status != HVD_OK)
        return status;
    progress_drive_until(loop->progress, handle_is_launched, &wait, until_us);
    if (wait.end == NULL)
        return tensor_queue_test_and_release(loop->queue, handle, err);
    status = gpu_follow(wait.end, stream, err);
    gpu_event_release(wait.end);
    return status;
}

int loop_wait(struct loop *loop, hvd_handle handle, int64_t until_us, struct hvd_error *err)
{
    struct handle_wait wait = {
        .queue = loop->queue, .handle = handle, .finished = tensor_queue_finished_count(loop->queue)};
    int status = loop_check_not_in_callback(loop, "hvd_wait", err);
    if (status != HVD_OK)
        return status;
    status = tensor_queue_test_and_release(loop->queue, handle, err);
    if (status != HVD_IN_PROGRESS)
        return status;
    trace_wait_begin(loop->trace);
    progress_drive_until(loop->progress, handle_is_done, &wait, until_us);
    trace_wait_end(loop->trace);
    return tensor_queue_test_and_release(loop->queue, handle, err);
}

int loop_make_persistent(struct loop *loop, struct request *request, hvd_persistent *persistentp,
                         struct hvd_error *err)
{
    struct persistents *persistents = &loop->persistents;
    struct persistent *persistent = persistent_create(persistents, request->desc);
    hvd_handle handle = 0;
    if (persistent == NULL) {
        tensor_queue_discard(loop->queue, request);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a persistent operation");
    }
    request->persistent = persistent;
    int rc = loop_submit(loop, request, false, &handle, err);
    if (rc == HVD_OK)
        rc = loop_wait(loop, handle, INT64_MAX, err);
    if (rc == HVD_OK)
        *persistentp = persistent_publish(persistents, persistent);
    else
        persistent_discard(persistents, persistent);
    return rc;
}

static bool start_is_done(void *arg)
{
    const struct persistent_start *start = arg;
    return atomic_load_explicit(&start->done, memory_order_acquire);
}

int loop_start_persistent(struct loop *loop, hvd_persistent number, void *stream, struct hvd_error *err)
{
    struct persistent_start start;
    int rc = loop_check_not_in_callback(loop, "hvd_persistent_start", err);
    if (rc == HVD_OK)
        rc = persistents_start(&loop->persistents, number, stream, &start, err);
    if (rc != HVD_OK)
        return rc;
    progress_drive(loop->progress, start_is_done, &start);
    return start.status == HVD_OK ? HVD_OK : error_set(err, start.status, "%s", start.err.text);
}

int loop_free_persistent(struct loop *loop, hvd_persistent number, struct hvd_error *err)
{
    int rc = persistents_free(&loop->persistents, number, err);
    if (rc == HVD_OK)
        progress_kick(loop->progress);
    return rc;
}

static bool job_is_over(void *arg)
{
    struct loop *loop = arg;
    return failure_status(&loop->failure) != HVD_OK || atomic_load(&loop->departure.complete);
}

int loop_leave(struct loop *loop, struct hvd_error *err)
{
    atomic_store_explicit(&loop->departure.requested, true, memory_order_release);
    progress_kick(loop->progress);
    progress_drive(loop->progress, job_is_over, loop);
    int status = failure_status(&loop->failure);
    return status == HVD_OK ? HVD_OK : error_set(err, status, "%s", loop->failure.reason.text);
}
