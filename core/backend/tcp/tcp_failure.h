/* tcp_failure.h: the error that ended a team's connections. It is final: nobody knows any more where in their
 * streams of bytes the two ends are, so every later call repeats it. */
#ifndef BACKEND_TCP_TCP_FAILURE_H
#define BACKEND_TCP_TCP_FAILURE_H

#include <stddef.h>

#include "base/status.h"

struct tcp_failure {
    int status; /* HVD_OK: none */
    int rank;   /* of the job, which the error is about */
    struct hvd_error err;
};

/* Report the error again. [rankp] may be NULL. */
static inline int tcp_failure_repeat(const struct tcp_failure *failure, int *rankp, struct hvd_error *err)
{
    if (rankp != NULL)
        *rankp = failure->rank;
    return error_set(err, failure->status, "%s", failure->err.text);
}

/* [status] is what a step returned that wrote its sentence into failure->err: pass it on, and keep an error.
 */
static inline int tcp_failure_check(struct tcp_failure *failure, int status, int rank, int *rankp,
                                    struct hvd_error *err)
{
    if (status >= 0)
        return status;
    failure->status = status;
    failure->rank = rank;
    return tcp_failure_repeat(failure, rankp, err);
}

#endif
