/* failure.c: the end of a job that cannot go on. */
#include "flow/failure.h"

#include "base/clock.h"
#include "net/peer_table.h"

/* A backend sees that a connection ended, but not why. The control tree watches the processes themselves, so
 * it gets this long to report first. Otherwise ranks that exit because of the first loss would be taken for
 * its cause. */
#define SUSPICION_US INT64_C(1000000)

void failure_init(struct failure *failure, struct control *control, const struct backend_env *env)
{
    failure->control = control;
    failure->env = env;
    failure->suspect_at_us = INT64_MAX;
    process_end_init(&failure->end);
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
    int told = failure->control->size - (event->status == HVD_ERR_RANK_LOST);
    if (event->first && told > 1)
        log_write(log, LOG_ERROR, "job", "%s (told to all %d ranks)", event->sentence, told);
    else
        log_write(log, event->first ? LOG_ERROR : LOG_INFO, "job", "%s", event->sentence);
    failure->suspect_at_us = INT64_MAX;
    error_set(&failure->reason, event->status, "%s", event->sentence);
    atomic_store(&failure->status, event->status);
    if (kill_wait_us > 0)
        failure->end.at_us = clock_us() + kill_wait_us;
}

bool failure_round(struct failure *failure)
{
    struct control_event event;
    bool moved = failure->control->ops->receive(failure->control, &event, NULL) == HVD_OK;
    process_end_check(&failure->end, failure->env->log,
                      "this process is still running, kill-wait after the job failed");
    return moved;
}

int64_t failure_deadline(const struct failure *failure)
{
    return failure->suspect_at_us < failure->end.at_us ? failure->suspect_at_us : failure->end.at_us;
}
