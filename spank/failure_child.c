/* failure_child.c: the children of slurmstepd that speak with srun, as the user. They tell it that the step
 * begins here, and what a failed task has left behind; and they ask it where node 0 is. */
#include "config.h"
#include "spank/failure_child.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "trace/flight_memory.h"
#include "verdict/error_file.h"

#define ASK_AGAIN_MS 50

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

static bool tell(const struct failure_task *task, struct hvd_error *err)
{
    return failure_report_send(task->host, task->port, task->token, &task->report, err);
}

int failure_child_main(void *arg, const struct hvd_error *failure)
{
    struct failure_task *task = arg;
    if (failure != NULL)
        return FAILURE_NOT_TOLD;
    read_traces(task, &task->report);
    if (task->report.end.told && !task->always)
        return FAILURE_HELD_BACK;
    return tell(task, NULL) ? FAILURE_TOLD : FAILURE_NOT_TOLD;
}

int failure_child_begin(void *arg, const struct hvd_error *failure)
{
    const struct failure_task *task = arg;
    char node[FAILURE_NODE_BYTES];
    struct hvd_error err = {""};
    if (failure != NULL)
        return FAILURE_NOT_TOLD;
    if (tell(task, &err))
        return FAILURE_TOLD;
    dprintf(
        USER_CHILD_FD,
        "hvd: %s: %s; the step goes on, but srun cannot say why a task of this node fails: let SrunPortRange "
        "of slurm.conf through the firewall between the two\n",
        failure_report_name_node(node), err.text);
    return FAILURE_NOT_TOLD;
}

/* ---- Ask -------------------------------------------------------------------------------------------- */

/* An answer is whole once srun has closed the connection. */
static bool ask(const struct failure_task *task, int64_t deadline_us)
{
    int fd = failure_report_deliver(task->host, task->port, task->token, &task->report, NULL);
    if (fd < 0)
        return false;
    int64_t limit_ms = clock_ms_until(deadline_us);
    const struct timeval limit = {.tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000 + 1};
    shutdown(fd, SHUT_WR);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    fcntl(fd, F_SETFL, 0); /* it was opened so that it does not block */
    ssize_t length = descriptors_read(fd, task->answer, FAILURE_ANSWER_BYTES);
    close(fd);
    if (length <= 0 || length == FAILURE_ANSWER_BYTES)
        return false;
    task->answer[length] = 0;
    return true;
}

int failure_child_ask(void *arg, const struct hvd_error *failure)
{
    const struct failure_task *task = arg;
    int64_t deadline_us = clock_us() + FAILURE_ASK_US;
    bool answered = failure == NULL && ask(task, deadline_us);
    while (answered && strcmp(task->answer, FAILURE_LATER) == 0 && clock_us() < deadline_us) {
        poll(NULL, 0, ASK_AGAIN_MS);
        answered = ask(task, deadline_us);
    }
    return answered ? FAILURE_TOLD : FAILURE_NOT_TOLD;
}
