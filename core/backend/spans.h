/* spans.h: where the elements of a batch lie in this member's memory, in one piece or in spans. Pure. */
#ifndef BACKEND_SPANS_H
#define BACKEND_SPANS_H

#include "backend/backend.h"

/* Something that goes through a batch. It finds the next span beside the last; any other takes a search. */
struct span_cursor {
    const struct backend_batch *batch;
    int64_t bytes; /* of an element */
    int span;      /* the last one; 0 at first */
};

/* Elements that lie together. Not every member has both: NULL stays NULL. */
struct contig {
    const char *input;
    char *output;
    int64_t count;
};

/* As many of the [count] elements from [element] on as lie together. */
struct contig spans_at(struct span_cursor *spans, int64_t element, int64_t count);

/* How many of the [count] elements from [element] on lie in the first so many spans. */
int64_t spans_within(struct span_cursor *spans, int64_t element, int64_t count, int place_count);

/* Copy elements of the input to [to], and from [from] to the output. Where a place is its own copy nothing is
 * done. */
void spans_read(struct span_cursor *spans, char *to, int64_t element, int64_t count);
void spans_write(struct span_cursor *spans, int64_t element, const char *from, int64_t count);

#endif
