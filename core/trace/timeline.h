/* timeline.h: the timeline of one rank: a file of Chrome trace events, which is valid JSON after every write.
 */
#ifndef TRACE_TIMELINE_H
#define TRACE_TIMELINE_H

#include <stdbool.h>

#include "trace/trace.h"

struct timeline;

/* Opens no file yet. The texts of [params] must outlive the timeline. */
int timeline_create(struct timeline **timelinep, const struct trace_params *params, struct hvd_error *err);

/* Ends the file where one is being written. NULL is fine. */
void timeline_destroy(struct timeline *timeline);

/* As trace_timeline_start, trace_timeline_stop and trace_set_clock_offset. */
int timeline_start(struct timeline *timeline, const char *folder, struct hvd_error *err);
int timeline_stop(struct timeline *timeline, struct hvd_error *err);
void timeline_set_clock(struct timeline *timeline, int64_t offset_us, int64_t error_us);

/* Is a file being written? Does not lock, so it may end at any time. */
bool timeline_is_on(const struct timeline *timeline);

/* Give an operation a row that no other operation in flight has. Any thread. Does not lock. */
void timeline_begin(struct timeline *timeline, struct trace_op *op);

/* Add the events of a finished operation, and free its row. */
void timeline_end(struct timeline *timeline, const struct trace_op *op, int status);

/* Write all events to the file. */
void timeline_flush(struct timeline *timeline);

/* The same in a signal handler of a process that ends; does nothing where another thread is changing the
 * timeline. No events are added after it. */
void timeline_flush_in_signal(struct timeline *timeline);

#endif
