/* failure.h: the end of a job that cannot go on.
 *
 * Owns what this rank knows about the failure: announced, suspected, or known, and when to end this process.
 * Borrows the control tree, over which every rank hears of a failure. Calls no other stage: the loop ends
 * what is in flight. */
#ifndef FLOW_FAILURE_H
#define FLOW_FAILURE_H

#include <stdatomic.h>

#include "backend/backend_env.h"
#include "base/process_end.h"
#include "control/control.h"

struct failure {
    struct control *control;
    const struct backend_env *env; /* its log, configuration and peer table */
    bool announced;                /* this rank has started the abort of the job */
    _Atomic int status;            /* HVD_OK, or why the job cannot go on; any thread reads it */
    struct hvd_error reason;       /* of that status */
    int64_t suspect_at_us;         /* when to believe the suspicion; INT64_MAX: there is none */
    int suspect_rank;
    struct hvd_error suspicion;
    struct process_end end; /* of this process, where the program stays after the job failed */
};

void failure_init(struct failure *failure, struct control *control, const struct backend_env *env);

/* Tell all ranks that the job ends because of [rank]. This rank hears of it by the abort event that comes
 * back, as all others do. Only the first announcement counts. */
void failure_announce(struct failure *failure, int status, int rank, const char *sentence);

/* The same for an error of this rank. */
void failure_announce_own(struct failure *failure, int status, const char *sentence);

/* A backend lost its connection to [rank]. The suspicion is held back for a while, see failure.c. */
void failure_suspect(struct failure *failure, int rank, const struct hvd_error *why);

/* Announce a suspicion that is due; true where it did. */
bool failure_check_suspicion(struct failure *failure);

/* The abort event has arrived: from here on failure_status says why the job cannot go on. Logs it, as an
 * error on the rank that noticed first, so that it is said once and not by all ranks. */
void failure_accept(struct failure *failure, const struct control_event *event);

/* A round of the loop after that: messages that are still queued go out, and this process ends when kill-wait
 * is over. True where a message came in; it is dropped. */
bool failure_round(struct failure *failure);

/* When failure_check_suspicion or failure_round have something to do: clock_us time, or INT64_MAX. */
int64_t failure_deadline(const struct failure *failure);

static inline int failure_status(const struct failure *failure)
{
    return atomic_load_explicit(&failure->status, memory_order_acquire);
}

/* A rank may be lost: no batch makes progress until that is settled. */
static inline bool failure_is_suspected(const struct failure *failure)
{
    return failure->suspect_at_us != INT64_MAX;
}

#endif
