/* outer_tasks.h: the tasks of a launcher, of which this process is one. */
#ifndef TOOLS_COMMON_OUTER_TASKS_H
#define TOOLS_COMMON_OUTER_TASKS_H

#include <stdint.h>

struct outer_tasks {
    const char *launcher; /* "srun", "hvdrun" or such; NULL: no launcher started this process as a task */
    int64_t count;        /* 0: the launcher does not say */
    int64_t number;       /* of this one, from 0; -1: unknown */
};

/* Read what the launcher has put into [environment]. Pure. */
struct outer_tasks outer_tasks_read(char *const *environment);

#endif
