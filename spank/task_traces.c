/* task_traces.c: memory in which the tasks of this node leave traces that outlive them. */
#include "config.h"
#include "spank/task_traces.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kernel.h"
#include "topo/plan/plan.h"
#include "trace/flight_memory.h"
#include "verdict/error_file.h"

#define DESCRIPTORS "/proc/self/fd/"

/* Global, because SPANK passes no data of a plug-in from one call to the next. */
static struct {
    struct task_traces *tasks;
    int count;
} traces;

void task_traces_make(int count)
{
    if (count < 1 || count > PLAN_MAX_TASKS)
        return;
    traces.tasks = calloc((size_t)count, sizeof(*traces.tasks));
    if (traces.tasks == NULL)
        return;
    traces.count = count;
    for (int i = 0; i < count; i++)
        traces.tasks[i] =
            (struct task_traces){.flight = flight_memory_make(), .error = kernel_memfd_create("hvd-error")};
}

struct task_traces task_traces_of(int index)
{
    return index >= 0 && index < traces.count ? traces.tasks[index] : (struct task_traces){-1, -1};
}

/* Let the program inherit [fd], and name it in [variable]. */
static void hand_down(spank_t spank, const char *variable, int fd)
{
    char path[sizeof(DESCRIPTORS) + 12];
    snprintf(path, sizeof(path), DESCRIPTORS "%d", fd);
    if (fcntl(fd, F_SETFD, 0) == 0)
        spank_setenv(spank, variable, path, 1);
}

void task_traces_hand_down(spank_t spank, int index)
{
    struct task_traces task = task_traces_of(index);
    char present[sizeof(DESCRIPTORS)] = "";
    if (task.flight >= 0)
        hand_down(spank, FLIGHT_MEMORY_VARIABLE, task.flight);
    spank_err_t rc = spank_getenv(spank, ERROR_FILE_VARIABLE, present, sizeof(present));
    bool of_outer_step = strncmp(present, DESCRIPTORS, strlen(DESCRIPTORS)) == 0;
    if (task.error >= 0 && (rc == ESPANK_ENV_NOEXIST || of_outer_step))
        hand_down(spank, ERROR_FILE_VARIABLE, task.error);
}
