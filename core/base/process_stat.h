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
    bool exits;      /* its first thread has begun to exit */
    int wait_status; /* with which that one exits; 0 before, and where this user may not see it */
    uint64_t
        start; /* when it started, in ticks since the machine did: with the number it names one process */
};

/* False if there is no such process, or no /proc. */
bool process_stat_read(pid_t pid, struct process_stat *stat);

/* Has the process ended that has, or had, this number and [start]? False where /proc does not tell. */
bool process_has_ended(pid_t pid, uint64_t start);

/* Signal the process that has this number and [start], and none that got the number after it. As
 * process_signal; ESRCH if it is gone. */
int process_stat_signal(pid_t pid, uint64_t start, int signal_number);

/* Has the process mapped a file whose name in /proc contains [name]? False if /proc does not say. */
bool process_maps(pid_t pid, const char *name);

/* The environment of the process as it was at its start: "NAME=value" strings up to a NULL, in memory that
 * the caller frees by one free. NULL where this user may not look at the process, it is gone, or there is no
 * memory. Of a longer one the first 4 MiB are read. */
char **process_environment(pid_t pid);

#endif
