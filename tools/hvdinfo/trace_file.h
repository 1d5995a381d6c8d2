/* trace_file.h: read the timeline of one rank, a line at a time. */
#ifndef TOOLS_HVDINFO_TRACE_FILE_H
#define TOOLS_HVDINFO_TRACE_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* What a file says of itself. */
struct trace_clock {
    int rank, size;
    char host[256];
    int64_t offset_us, error_us; /* as trace_set_clock_offset; error -1: not known */
};

/* What stands in one line, borrowed; its numbers were checked to lie within 2^52. */
struct trace_event {
    json_t *object;
    bool is_metadata; /* otherwise a span */
    const char *name;
    int64_t at_us;           /* span */
    const json_t *arguments; /* or NULL */
};

/* Called for each event in turn; what it returns, unless HVD_OK, ends the reading. */
typedef int (*trace_file_f)(void *arg, const struct trace_event *event, struct hvd_error *err);

/* What the file [path] says of itself: the last time it does. *cutp: it ends in the middle, as that of a
 * process that was killed while it wrote. */
int trace_file_clock(const char *path, struct trace_clock *clock, bool *cutp, struct hvd_error *err);

/* All events of the file, those behind its cut left out. HVD_ERR_INVALID with the line where it is not what
 * hvd writes. */
int trace_file_read(const char *path, trace_file_f sink, void *arg, bool *cutp, struct hvd_error *err);

/* A whole number of [object], within 2^52, into *numberp; false where there is none. */
bool trace_number(const json_t *object, const char *key, int64_t *numberp);

#endif
