/* agent.h: an agent of hvdrun: starts and watches ranks on its host, as the hvdrun of the job says. */
#ifndef TOOLS_HVDRUN_AGENT_AGENT_H
#define TOOLS_HVDRUN_AGENT_AGENT_H

#include "tools/hvdrun/job_signals.h"
#include "tools/hvdrun/options.h"

/* Run until that hvdrun ends, whose command line [options] is, or until it cannot be reached any more: then
 * end all ranks. Says what went wrong. Returns the exit status. */
int agent_run(const struct hvdrun_options *options, const struct job_signals *signals);

#endif
