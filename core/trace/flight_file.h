/* flight_file.h: the file that the flight record is written to. */
#ifndef TRACE_FLIGHT_FILE_H
#define TRACE_FLIGHT_FILE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "trace/flight.h"

#define FLIGHT_FILE_BUFFER_BYTES 8192
#define FLIGHT_FILE_NAME         "hvd-flight.%d.txt" /* of a rank */

struct flight_file {
    struct flight *flight;         /* outlives this */
    char head[400];                /* "rank 3 of 8 (n2), pid 12" */
    char path[PATH_MAX];           /* "": none is written */
    char temporary_path[PATH_MAX]; /* its name while it is written */
    _Atomic bool writing;
    char bytes[FLIGHT_FILE_BUFFER_BYTES];
};

/* [flight_file] is zeroed. Creates the folder where it is missing. */
int flight_file_open(struct flight_file *flight_file, const struct trace_params *plan, struct flight *flight,
                     struct hvd_error *err);

/* Write the file; when it is complete it replaces an older one. 0, or -1 with errno: EBUSY where another
 * thread is writing it, or none is to be written. Safe in signal handlers. */
int flight_file_write(struct flight_file *flight_file, const char *reason);

#endif
