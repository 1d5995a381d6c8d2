/* planner.h: ask a child process, in slurmstepd, how the tasks of this node are to be placed. */
#ifndef SPANK_PLANNER_H
#define SPANK_PLANNER_H

#include "spank/planner_child.h"

#define PLANNER_TIMEOUT_MS 2000

/* What came back, checked. */
struct planner_result {
    struct planner_reply head;
    struct plan_task *tasks; /* head.task_count of them */
};

/* Fork a child for [question] that does [work], and wait for its answer, [timeout_ms] at most; it has ended
 * when this returns. *answerp is for planner_result_destroy. HVD_ERR_TIMEOUT, HVD_ERR_SYSTEM (what came is no
 * answer to the question), HVD_ERR_NO_MEMORY, or the status and sentence that the child found; *answerp is
 * unchanged then. */
int planner_run(const struct planner_request *question, planner_work_f *work, int timeout_ms,
                struct planner_result **answerp, struct hvd_error *err);

/* [answer] may be NULL. */
void planner_result_destroy(struct planner_result *answer);

#endif
