/* start_notice.c: tells srun, from a thread, that this node waits in hvd_init, and when that is over. */
#include "config.h"
#include "api/start_notice.h"

#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/task_report.h"
#include "base/descriptors.h"
#include "base/stack.h"

#define LATE_MS 1000 /* most starts are over by then, and srun is told nothing */

/* One rank speaks for the node. The first byte 0 makes the name abstract: the kernel frees it with the
 * socket. */
static int claim_node(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "hvd-waits-%.20s.%.20s",
                          job == NULL ? "" : job, step == NULL ? "" : step);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) < 0)
        descriptors_close(&fd);
    return fd;
}

static void *tell_if_late(void *arg)
{
    struct start_notice *notice = arg;
    struct pollfd over = {.fd = notice->hold[0], .events = POLLIN};
    if (poll(&over, 1, LATE_MS) != 0)
        return NULL;
    notice->claim = claim_node();
    notice->told = notice->claim >= 0 && task_report_send(notice->listener, &notice->report);
    return NULL;
}

void start_notice_begin(struct start_notice *notice)
{
    *notice = (struct start_notice){.listener = getenv(FAILURE_TASK_VARIABLE),
                                    .report.kind = FAILURE_WAITS,
                                    .hold = {-1, -1},
                                    .claim = -1};
    if (notice->listener == NULL || !task_report_fill(&notice->report) || notice->report.size == 1 ||
        pipe2(notice->hold, O_CLOEXEC) < 0)
        return;
    if (stack_create_thread(&notice->thread, tell_if_late, notice) == 0)
        return;
    descriptors_close(&notice->hold[0]);
    descriptors_close(&notice->hold[1]);
}

void start_notice_end(struct start_notice *notice)
{
    if (notice->hold[1] < 0)
        return;
    descriptors_close(&notice->hold[1]);
    pthread_join(notice->thread, NULL);
    descriptors_close(&notice->hold[0]);
    notice->report.kind = FAILURE_WAITED;
    if (notice->told)
        task_report_send(notice->listener, &notice->report);
    descriptors_close(&notice->claim);
}
