/* agents.h: hvdrun's end of its agents, one on each of several nodes, which start and watch the ranks there.
 * Starts agents by srun, takes in what they report and what ranks write, and gives up hosts whose agent is
 * lost. */
#ifndef TOOLS_HVDRUN_AGENT_AGENTS_H
#define TOOLS_HVDRUN_AGENT_AGENTS_H

#include "tools/hvdrun/agent/agent_hosts.h"
#include "tools/hvdrun/events/events.h"
#include "tools/hvdrun/output.h"
#include "tools/hvdrun/starter.h"
#include "tools/hvdrun/survivors.h"

struct agents;

/* What they work with. The pointers must stay valid until agents_close. */
struct agents_plan {
    struct agent_hosts_plan hosts;
    int64_t lease_us;            /* nothing is heard of a host for so long: it is lost */
    int64_t grace_us;            /* from the request to end the job to SIGKILL */
    struct survivors *survivors; /* its server lets agents in, and it hears of the slots that there are */
    struct output *output;
};

extern const struct starter_ops agents_ops; /* its state is struct agents */

int agents_open(struct agents **agentsp, const struct agents_plan *plan, struct hvd_error *err);

/* End the agents, and what has started them. NULL is fine. */
void agents_close(struct agents *agents);

/* At the start of the job: look which hosts there are, and start agents there. How many places there are on
 * hosts whose agent has come, are others to come, and will others be started? */
void agents_gather(struct agents *agents);
int agents_places(const struct agents *agents);
bool agents_are_coming(const struct agents *agents);
bool agents_will_start(const struct agents *agents);

/* This descriptor is readable when there is something to do. */
int agents_fd(const struct agents *agents);

#endif
