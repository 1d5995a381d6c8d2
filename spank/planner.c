/* planner.c: plan the placement of this node's tasks in a child process of slurmstepd. */
#include "config.h"
#include "spank/planner.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"

int planner_run(const struct planner_request *request, planner_work_f *work, int timeout_ms,
                struct planner_result **answerp, struct hvd_error *err)
{
    int64_t deadline_us = clock_us() + (int64_t)timeout_ms * 1000;
    int task_count = request->placement.task_count;
    int pipes[2] = {-1, -1};
    int child_status = 0;
    pid_t child = -1;
    int rc = HVD_OK;
    struct planner_result *answer = calloc(1, sizeof(*answer));
    if (task_count < 1 || task_count > PLAN_MAX_TASKS)
        rc = error_set(err, HVD_ERR_INVALID, "%d tasks are to be placed on one node; expected 1 to %d",
                       task_count, PLAN_MAX_TASKS);
    else if (answer == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", task_count);
    else if (pipe2(pipes, O_CLOEXEC) < 0)
        rc = error_set_errno(err, "cannot make a pipe, so tasks cannot be placed");
    if (rc != HVD_OK)
        goto done;
    struct planner_task task = {request, work};
    const struct user_child user_child = {
        .user = request->owner, .keep = {pipes[1]}, .keep_count = 1, .work = planner_main, .arg = &task};
    child = user_child_fork(&user_child);
    if (child < 0) {
        rc = error_set_errno(err, "cannot fork the process that looks at this node");
        goto done;
    }
    close(pipes[1]);
    pipes[1] = -1;
    rc = planner_reply_read(pipes[0], task_count, deadline_us, answer, err);
    user_child_wait(child, 0, &child_status);
done:
    for (int i = 0; i < 2; i++)
        descriptors_close(&pipes[i]);
    if (rc != HVD_OK) {
        planner_result_destroy(answer);
        return rc;
    }
    *answerp = answer;
    return HVD_OK;
}

void planner_result_destroy(struct planner_result *answer)
{
    if (answer == NULL)
        return;
    planner_result_clear(answer);
    free(answer);
}
