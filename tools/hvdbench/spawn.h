/* spawn.h: run a command, capture its standard output, and record when it ended. */
#ifndef TOOLS_HVDBENCH_SPAWN_H
#define TOOLS_HVDBENCH_SPAWN_H

#include <stdint.h>

#include "base/status.h"

#define SPAWN_OUTPUT_BYTES 262144

struct spawned {
    int64_t begin_ns,
        end_ns;      /* CLOCK_MONOTONIC just before the fork, and when the end of the process was noticed */
    int exit_status; /* 128 + the signal's number if one killed it */
    char output[SPAWN_OUTPUT_BYTES]; /* standard output, 0-terminated and truncated if longer */
};

/* Run [argv], which is looked up in PATH, with /dev/null as stdin. Returns HVD_ERR_TIMEOUT if it took longer
 * than [limit_us] and was ended. Exit status 127: there is no such command. */
int spawn(struct spawned *spawned, const char *const *argv, int64_t limit_us, struct hvd_error *err);

#endif
