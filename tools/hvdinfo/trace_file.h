/* trace_file.h: read the timeline of one rank, line by line. */
#ifndef TOOLS_HVDINFO_TRACE_FILE_H
#define TOOLS_HVDINFO_TRACE_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "tools/hvdinfo/stragglers.h"

/* The metadata of a file. */
struct trace_clock {
    int rank, size;
    char host[256];
    int64_t offset_us, error_us; /* as in trace_set_clock_offset; error -1: unknown */
};

/* One event, valid only during the callback. Its numbers are within 2^52. */
struct trace_event {
    json_t *object;
    bool is_metadata; /* otherwise a span */
    const char *name;
    int64_t at_us;           /* span */
    const json_t *arguments; /* or NULL */
};

/* Called for each event in turn. Any return value but HVD_OK ends the reading and is returned. */
typedef int (*trace_file_f)(void *arg, const struct trace_event *event, struct hvd_error *err);

/* Read the last metadata in the file [path]. *cutp: the file ends in the middle of a line, as that of a
 * process that was killed. */
int trace_file_clock(const char *path, struct trace_clock *clock, bool *cutp, struct hvd_error *err);

/* Read all events of the file; an incomplete last line is ignored. Returns HVD_ERR_INVALID with the line
 * number if it is not a timeline of hvd. */
int trace_file_read(const char *path, trace_file_f sink, void *arg, bool *cutp, struct hvd_error *err);

/* What a span says of its rank's part in an operation: [arrival] gets all but the rank, with the time on the
 * file's own clock, and texts that are valid as long as the event. Returns false for other events. */
bool trace_file_arrival(const struct trace_event *event, struct arrival *arrival);

#endif
