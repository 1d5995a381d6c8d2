/* streams.h: what the ranks of an agent write: reads it, and hands it on as far as hvdrun takes it. */
#ifndef TOOLS_HVDRUN_AGENT_STREAMS_H
#define TOOLS_HVDRUN_AGENT_STREAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct streams;

/* Gets what a rank has written to its stdout, [which] 0, or stderr, 1; no bytes at its end. */
typedef void streams_sink_f(void *arg, int rank, int which, const unsigned char *bytes, size_t length);

/* [terminal]: stdout is a pseudo-terminal where one can be had, and a pipe elsewhere. */
int streams_create(struct streams **streamsp, int ranks, bool terminal, streams_sink_f *sink, void *arg,
                   struct hvd_error *err);
void streams_destroy(struct streams *streams); /* NULL is fine */

/* Create those of a rank, whose ends go to fds[1] and [2]; the caller closes them. What is left of its
 * earlier ones is handed on. */
int streams_add(struct streams *streams, int rank, int fds[3], struct hvd_error *err);

/* hvdrun has taken so many bytes. */
void streams_taken(struct streams *streams, size_t bytes);

/* This descriptor is readable when there is something to hand on; -1 while hvdrun has to take what it has
 * got first. */
int streams_fd(const struct streams *streams);
void streams_work(struct streams *streams);

/* Hand on what [rank] has written so far, as far as that may be. */
void streams_drain(struct streams *streams, int rank);

/* No process is left that writes: hand all on, and end. */
void streams_finish(struct streams *streams);

#endif
