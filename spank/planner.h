/* planner.h: plan the placement of this node's tasks in a child process of slurmstepd. */
#ifndef SPANK_PLANNER_H
#define SPANK_PLANNER_H

#include "spank/planner_child.h"

#define PLANNER_TIMEOUT_MS 2000

/* Fork a child that runs [work] on [request], and wait at most [timeout_ms] for its reply. The child has
 * ended when this returns, or gets SIGKILL and is left behind a second later. Free *answerp with
 * planner_result_destroy. On failure *answerp is unchanged; returns HVD_ERR_TIMEOUT, HVD_ERR_SYSTEM (the
 * reply is malformed), HVD_ERR_NO_MEMORY, or the status and sentence of the child. */
int planner_run(const struct planner_request *request, planner_work_f *work, int timeout_ms,
                struct planner_result **answerp, struct hvd_error *err);

/* For tests: [answer] may be NULL. */
void planner_result_destroy(struct planner_result *answer);

#endif
