/* local_job.h: a job whose ranks hvdrun starts itself, on this machine. */
#ifndef TOOLS_HVDRUN_LOCAL_JOB_H
#define TOOLS_HVDRUN_LOCAL_JOB_H

#include "tools/hvdrun/events/events.h"
#include "tools/hvdrun/job_signals.h"
#include "tools/hvdrun/options.h"
#include "tools/hvdrun/restarts.h"

/* Run the job, tell [events] of it, and say what went wrong. It is the [restart]th time that it is started
 * again, 0 at first. */
void local_job_run(const struct hvdrun_options *options, const struct job_signals *signals,
                   struct launch_events *events, int restart, struct attempt *attempt);

/* Print what would run, with [why] as a comment. Returns hvdrun's exit status. */
int local_job_show(const struct hvdrun_options *options, const char *why, FILE *to);

#endif
