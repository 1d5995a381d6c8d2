/* spans.h: where the elements of a batch lie in this member's memory, in one buffer or in spans. Pure. */
#ifndef BACKEND_SPANS_H
#define BACKEND_SPANS_H

#include "backend/backend.h"

/* A way through a batch. The next span is found beside the last one; any other takes a search. */
struct span_cursor {
    const struct backend_batch *batch;
    int64_t bytes; /* of an element */
    int span;      /* the last one; 0 at first */
};

/* Contiguous elements. Where the batch has no input or no output on this member, that pointer is NULL. */
struct contig {
    const char *input;
    char *output;
    int64_t count;
};

/* As many of the [count] elements from [element] on as are contiguous. */
struct contig spans_at(struct span_cursor *spans, int64_t element, int64_t count);

/* How many of the [count] elements from [element] on lie in the first [span_count] spans from there. */
int64_t spans_within(struct span_cursor *spans, int64_t element, int64_t count, int span_count);

/* Copy elements of the input to [to], or from [from] to the output. Nothing is copied onto itself. */
void spans_read(struct span_cursor *spans, char *to, int64_t element, int64_t count);
void spans_write(struct span_cursor *spans, int64_t element, const char *from, int64_t count);

#endif
