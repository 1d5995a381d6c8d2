/* memory_events.h: how many processes of this control group the kernel has killed because memory ran out. */
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

/* Has the kernel killed a process since? Then *limitp is the lowest limit of the control group and those
 * around it, in bytes; -1: there is none, so that the machine's memory ran out. */
bool memory_events_killed(const struct memory_events *memory_events, int64_t *limitp);

#endif
