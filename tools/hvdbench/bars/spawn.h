/* spawn.h: start a command, take what it writes, and know when it ended. */
#ifndef TOOLS_HVDBENCH_BARS_SPAWN_H
#define TOOLS_HVDBENCH_BARS_SPAWN_H

#include <stdbool.h>

#include "base/status.h"

#define SPAWN_OUTPUT_BYTES 262144
#define SPAWN_ERRORS_BYTES 16384

struct spawned {
    bool take_errors;         /* in: its standard error too, which otherwise is this process's own */
    int64_t begin_ns, end_ns; /* CLOCK_MONOTONIC: just before the fork, and when it was seen to have ended */
    int exit_status;          /* 128 and the signal's number where one killed it */
    char output[SPAWN_OUTPUT_BYTES]; /* its standard output, ended by 0; what is longer is cut */
    char errors[SPAWN_ERRORS_BYTES]; /* likewise, "" where not taken */
};

/* Run [argv], found in PATH, with /dev/null as input. HVD_ERR_TIMEOUT where it takes longer than
 * [limit_us]: it has then been ended. 127: there is no such command. */
int spawn(struct spawned *spawned, const char *const *argv, int64_t limit_us, struct hvd_error *err);

#endif
