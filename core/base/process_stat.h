/* process_stat.h: what /proc tells of a process. */
#ifndef BASE_PROCESS_STAT_H
#define BASE_PROCESS_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_stat {
    pid_t parent;
    char state;
    int thread_count;
    uint64_t
        start; /* when it started, in ticks since the machine did: with the number it names one process */
};

/* False if there is no such process, or no /proc. */
bool process_stat_read(pid_t pid, struct process_stat *stat);

/* Has the process ended that has, or had, this number and [start]? False where /proc does not tell. */
bool process_has_ended(pid_t pid, uint64_t start);

#endif
