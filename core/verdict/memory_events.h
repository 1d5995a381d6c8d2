/* memory_events.h: how many processes of a control group the kernel has killed because memory ran out. */
#ifndef VERDICT_MEMORY_EVENTS_H
#define VERDICT_MEMORY_EVENTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* What the control group said at one moment. */
struct memory_events {
    char folder[PATH_MAX]; /* of the control group; "": it cannot be asked */
    bool v1;
    int64_t kills;
};

void memory_events_begin(struct memory_events *memory_events);

/* Of the control group that Slurm has made for the step of this process, from the start of the step on. It
 * cannot be asked where there is none. */
void memory_events_of_step(struct memory_events *memory_events);

/* For tests: cut the path of a control group, "/slurm/uid_1/job_7/step_0/task_1", after the step. False where
 * it is in none. */
bool memory_events_cut_at_step(char *path);

/* Has the kernel killed a process since? Then *limitp is the lowest limit of the control group and those
 * around it, in bytes; -1: there is none, so that the machine's memory ran out. */
bool memory_events_killed(const struct memory_events *memory_events, int64_t *limitp);

#endif
