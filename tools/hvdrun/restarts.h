/* restarts.h: start a job again after a failure. */
#ifndef TOOLS_HVDRUN_RESTARTS_H
#define TOOLS_HVDRUN_RESTARTS_H

#include <stdbool.h>

#include "tools/hvdrun/job_signals.h"

/* Exit statuses that are hvdrun's own, and no rank's. */
#define EXIT_BROKEN 1
#define EXIT_USAGE  2

/* What came of one attempt to run the job. */
struct attempt {
    int exit_status;
    bool may_restart; /* it failed, and may not fail the next time */
};

/* Call [run] with the number of restarts so far, again and again until it does not fail, may not be started
 * again, or has been started again [max] times. The delay between two attempts grows from one second to a
 * minute; a signal that asks hvdrun to end ends it then too. Says what it does. Returns hvdrun's exit
 * status. */
int restarts_run(int max, void (*run)(void *arg, int restart, struct attempt *attempt), void *arg,
                 const struct job_signals *signals);

/* The delay in seconds before the [restart]th restart, from 1 on. Pure. */
int restart_delay_s(int restart);

#endif
