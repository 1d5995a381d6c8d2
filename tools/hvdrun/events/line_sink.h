/* line_sink.h: where lines of events go: a file, or a socket whose reader may stop or go away. Never waits
 * for it: lines that cannot be written are dropped and counted. */
#ifndef TOOLS_HVDRUN_EVENTS_LINE_SINK_H
#define TOOLS_HVDRUN_EVENTS_LINE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define LINE_SINK_PENDING 65536 /* bytes that wait for a reader which is slow */

struct line_sink {
    int fd; /* -1: the reader is gone, or there is no sink */
    bool is_socket;
    bool polls;        /* poll says when there is room: a socket or FIFO, no file */
    const char *where; /* as the user gave it; NULL: there is no sink */
    size_t pending_bytes;
    int64_t pending_lines;
    int64_t dropped;     /* lines since the last one that was taken */
    int64_t dropped_all; /* lines */
    char pending[LINE_SINK_PENDING];
};

/* "FILE", to which lines are appended, or "unix:PATH", where a reader listens. HVD_ERR_INVALID with a
 * sentence if that cannot be opened. [where] is borrowed. */
int line_sink_open(struct line_sink *sink, const char *where, struct hvd_error *err);
void line_sink_close(struct line_sink *sink); /* pending lines are dropped */

/* Write [length] bytes, which end with a newline, or drop them. A reader that was gone and listens again gets
 * the lines from now on. */
void line_sink_put(struct line_sink *sink, const char *line, size_t length);

/* Write what waits. It is worth trying when this descriptor is writable; -1: nothing waits. */
void line_sink_flush(struct line_sink *sink);
int line_sink_fd(const struct line_sink *sink);

#endif
