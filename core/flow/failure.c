/* failure.c: the end of a job that cannot go on. */
#include "flow/failure.h"

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "net/peer_table.h"

/* A backend sees that a connection ended, but not why. The control tree watches the processes themselves, so
 * it gets this long to report first. Otherwise ranks that exit because of the first loss would be taken for
 * its cause. */
#define SUSPICION_US INT64_C(1000000)

/* From SIGTERM to SIGKILL for this process, where the program stays after a rank was lost. */
#define KILL_GRACE_US INT64_C(5000000)

void failure_init(struct failure *failure, struct control *control, const struct backend_env *env)
{
    failure->control = control;
    failure->env = env;
    failure->suspect_at_us = INT64_MAX;
    failure->kill_at_us = INT64_MAX;
    failure->kill_signal = SIGTERM;
}

void failure_announce(struct failure *failure, int status, int rank, const char *sentence)
{
    if (failure->announced)
        return;
    failure->announced = true;
    failure->control->ops->abort(failure->control, status, rank, sentence);
}

void failure_announce_own(struct failure *failure, int status, const char *sentence)
{
    int rank = failure->control->rank;
    char name[300];
    struct hvd_error full;
    peer_table_rank_name(failure->env->peer_table, rank, name, sizeof(name));
    error_set(&full, status, "%s cannot go on: %s", name, sentence);
    failure_announce(failure, status, rank, full.text);
}

void failure_suspect(struct failure *failure, int rank, const struct hvd_error *why)
{
    failure->suspect_at_us = clock_us() + SUSPICION_US;
    failure->suspect_rank = rank;
    failure->suspicion = *why;
}

bool failure_check_suspicion(struct failure *failure)
{
    if (!failure_is_suspected(failure) || clock_us() < failure->suspect_at_us)
        return false;
    failure->suspect_at_us = INT64_MAX;
    failure_announce(failure, HVD_ERR_RANK_LOST, failure->suspect_rank, failure->suspicion.text);
    return true;
}

void failure_accept(struct failure *failure, const struct control_event *event)
{
    int64_t kill_wait_us = failure->env->config->kill_wait_us;
    const struct hvd_log *log = failure->env->log;
    int size = failure->control->size;
    if (event->first && size > 1)
        log_write(log, LOG_ERROR, "job", "%s (told to all %d ranks)", event->sentence, size);
    else
        log_write(log, event->first ? LOG_ERROR : LOG_INFO, "job", "%s", event->sentence);
    failure->suspect_at_us = INT64_MAX;
    error_set(&failure->reason, event->status, "%s", event->sentence);
    atomic_store(&failure->status, event->status);
    if (kill_wait_us > 0)
        failure->kill_at_us = clock_us() + kill_wait_us;
}

/* The only place where hvd ends a process: a rank was lost, and the program is still here after kill-wait. */
static void end_process(struct failure *failure)
{
    log_write(failure->env->log, LOG_ERROR, "job",
              "this process is still running, kill-wait after the job failed; ending it with signal %d",
              failure->kill_signal);
    process_signal_self(failure->kill_signal);
    failure->kill_at_us = failure->kill_signal == SIGKILL ? INT64_MAX : clock_us() + KILL_GRACE_US;
    failure->kill_signal = SIGKILL;
}

bool failure_round(struct failure *failure)
{
    struct control_event event;
    bool moved = failure->control->ops->receive(failure->control, &event, NULL) == HVD_OK;
    if (clock_us() >= failure->kill_at_us)
        end_process(failure);
    return moved;
}

int64_t failure_deadline(const struct failure *failure)
{
    return failure->suspect_at_us < failure->kill_at_us ? failure->suspect_at_us : failure->kill_at_us;
}
