/* failure_child.c: the children of slurmstepd that tell srun, as the user, that the step begins here, and
 * what a failed task has left behind. */
#include "config.h"
#include "spank/failure_child.h"

#include <stdlib.h>
#include <unistd.h>

#include "trace/flight_memory.h"
#include "verdict/error_file.h"

/* ---- Look ------------------------------------------------------------------------------------------- */

static void read_traces(const struct failure_task *task, struct failure_report *report)
{
    struct memory_events memory_events;
    struct flight *flight = task->has_flight ? flight_memory_read_fd(USER_CHILD_FD) : NULL;
    rank_traces_of_end(flight, &report->end);
    rank_traces_of_flight(flight, &report->facts, report->crash);
    free(flight);
    if (task->has_error)
        error_file_read(USER_CHILD_FD + task->has_flight, report->facts.error, sizeof(report->facts.error));
    memory_events_of_step(&memory_events);
    rank_traces_of_system(report->end.wait_status, &memory_events, &report->facts);
}

/* ---- Tell ------------------------------------------------------------------------------------------- */

static bool tell(const struct failure_task *task, const struct failure_report *report)
{
    return failure_report_send(task->host, task->port, task->token, report);
}

int failure_child_main(void *arg, const struct hvd_error *failure)
{
    struct failure_task *task = arg;
    if (failure != NULL)
        return FAILURE_NOT_TOLD;
    read_traces(task, &task->report);
    if (task->report.end.told && !task->always)
        return FAILURE_HELD_BACK;
    return tell(task, &task->report) ? FAILURE_TOLD : FAILURE_NOT_TOLD;
}

int failure_child_begin(void *arg, const struct hvd_error *failure)
{
    struct failure_task *task = arg;
    return failure == NULL && tell(task, &task->report) ? FAILURE_TOLD : FAILURE_NOT_TOLD;
}
