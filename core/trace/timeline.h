/* timeline.h: the timeline of one rank: a file of Chrome's trace events, valid JSON after every write. */
#ifndef TRACE_TIMELINE_H
#define TRACE_TIMELINE_H

#include <stdbool.h>

#include "trace/trace.h"

struct timeline;

/* Never NULL where HVD_OK: there is no file yet. [plan]: as trace.h has it; its texts are borrowed. */
int timeline_create(struct timeline **timelinep, const struct trace_params *plan, struct hvd_error *err);

/* Ends it where one is being written. NULL is fine. */
void timeline_destroy(struct timeline *timeline);

/* As trace_timeline_start, trace_timeline_stop and trace_set_clock_offset. */
int timeline_start(struct timeline *timeline, const char *folder, struct hvd_error *err);
int timeline_stop(struct timeline *timeline, struct hvd_error *err);
void timeline_set_clock(struct timeline *timeline, int64_t offset_us, int64_t error_us);

/* Is one being written? Without locking: it may end meanwhile. */
bool timeline_is_on(const struct timeline *timeline);

/* Give an operation a row in which no other is at that time. Any thread. Locks nothing. */
void timeline_begin(struct timeline *timeline, struct trace_op *op);

/* Put a finished operation down, its row is free again. */
void timeline_end(struct timeline *timeline, const struct trace_op *op, int status);

/* Write what was put down. */
void timeline_flush(struct timeline *timeline);

/* The same as far as that can be done now, in a signal handler of a process that ends: nothing is put down
 * after it. */
void timeline_flush_in_signal(struct timeline *timeline);

#endif
