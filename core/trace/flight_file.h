/* flight_file.h: the file of the flight record. */
#ifndef TRACE_FLIGHT_FILE_H
#define TRACE_FLIGHT_FILE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "trace/flight.h"

#define RECORD_PAD_BYTES 8192

struct record {
    struct flight *flight; /* borrowed */
    char head[400];        /* "rank 3 of 8 (n2), pid 12" */
    char path[PATH_MAX];   /* "": there is none */
    char made[PATH_MAX];   /* what it is called while it is written */
    _Atomic bool writing;
    char bytes[RECORD_PAD_BYTES];
};

/* [record] is zeroed. Makes the folder where it is missing. */
int record_open(struct record *record, const struct trace_plan *plan, struct flight *flight,
                struct hvd_error *err);

/* Write the file, which replaces one that is there once it is complete: 0, or -1 with errno; EBUSY where it
 * is being written already, or there is none to be written. Safe in signal handlers. */
int record_write(struct record *record, const char *reason);

#endif
