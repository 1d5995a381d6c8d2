/* fail.c: the end of a job that cannot go on. */
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/stages.h"

/* A backend sees that a connection ended, not why. The control tree, which watches processes, gets this long
 * to say it first: otherwise ranks that leave because of the first loss would be taken for the cause. */
#define SUSPICION_US INT64_C(1000000)

/* Between SIGTERM and SIGKILL of our own process, after a rank was lost and nobody left. */
#define KILL_GRACE_US INT64_C(5000000)

void fail_job(struct loop *loop, int status, int rank, const char *sentence)
{
    if (loop->failing)
        return;
    loop->failing = true;
    loop->control->ops->abort(loop->control, status, rank, sentence);
}

void fail_local(struct loop *loop, int status, const char *sentence)
{
    char name[300];
    struct hvd_error full;
    peer_table_rank_name(loop->backends.env.peer_table, loop->control->rank, name, sizeof(name));
    error_set(&full, status, "%s cannot go on: %s", name, sentence);
    fail_job(loop, status, loop->control->rank, full.text);
}

void fail_suspect(struct loop *loop, int rank, const struct hvd_error *why)
{
    loop->suspect_at_us = clock_us() + SUSPICION_US;
    loop->suspect_rank = rank;
    loop->suspicion = *why;
}

bool fail_check_suspicion(struct loop *loop)
{
    if (loop->suspect_at_us == INT64_MAX || clock_us() < loop->suspect_at_us)
        return false;
    loop->suspect_at_us = INT64_MAX;
    fail_job(loop, HVD_ERR_RANK_LOST, loop->suspect_rank, loop->suspicion.text);
    return true;
}

void fail_on_abort(struct loop *loop, const struct control_event *event)
{
    const struct backend_env *env = &loop->backends.env;
    log_write(env->log, LOG_ERROR, "job", "%s", event->sentence);
    loop->suspect_at_us = INT64_MAX;
    error_set(&loop->failure, event->status, "%s", event->sentence);
    atomic_store(&loop->failed, event->status);
    if (env->config->kill_wait_us > 0)
        loop->kill_at_us = clock_us() + env->config->kill_wait_us;
    tensor_queue_refuse(loop->queue, event->status, loop->failure.text);
    trace_dump(loop->trace, loop->failure.text); /* before what is under way ends, as it was */
    run_abandon(loop, event->status, loop->failure.text);
    negotiation_abandon(loop, event->status, loop->failure.text);
    end_undecided(loop, TENSOR_QUEUE_ALL_SETS, event->status, loop->failure.text);
}

/* The one place where hvd ends a process: a rank was lost, and the program has not left for kill-wait. */
static void end_process(struct loop *loop)
{
    log_write(loop->backends.env.log, LOG_ERROR, "job",
              "this process is still here, kill-wait after the job could not go on; ending it by signal %d",
              loop->kill_signal);
    kill(getpid(), loop->kill_signal);
    loop->kill_at_us = loop->kill_signal == SIGKILL ? INT64_MAX : clock_us() + KILL_GRACE_US;
    loop->kill_signal = SIGKILL;
}

bool fail_round(struct loop *loop)
{
    struct control_event event;
    bool moved = loop->control->ops->receive(loop->control, &event, NULL) == HVD_OK;
    if (clock_us() >= loop->kill_at_us)
        end_process(loop);
    return moved;
}
