/* agents_job.h: an elastic job on several nodes of a Slurm job, whose ranks agents of hvdrun start. */
#ifndef TOOLS_HVDRUN_AGENT_AGENTS_JOB_H
#define TOOLS_HVDRUN_AGENT_AGENTS_JOB_H

#include "tools/hvdrun/events/events.h"
#include "tools/hvdrun/job_signals.h"
#include "tools/hvdrun/options.h"
#include "tools/hvdrun/restarts.h"

struct agents_request {
    const struct hvdrun_options *options;
    const struct job_signals *signals;
    char *const *argv; /* of hvdrun */
};

/* Run the job, tell [events] of it (NULL: nobody), and say what went wrong. */
void agents_job_run(const struct agents_request *request, struct launch_events *events,
                    struct attempt *attempt);

/* Print how agents would be started, with [why] as a comment. Returns hvdrun's exit status. */
int agents_job_show(const struct agents_request *request, const char *why, FILE *to);

#endif
