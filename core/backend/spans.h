/* spans.h: where the elements of a batch lie in this member's memory, in one piece or in spans. Pure. */
#ifndef BACKEND_SPANS_H
#define BACKEND_SPANS_H

#include "backend/backend.h"

/* Something that goes through a batch. It finds the next span beside the last; any other takes a search. */
struct places {
    const struct plane_batch *batch;
    int64_t bytes; /* of an element */
    int span;      /* the last one; 0 at first */
};

/* Elements that lie together. Not every member has both: NULL stays NULL. */
struct place {
    const char *input;
    char *output;
    int64_t count;
};

/* As many of the [count] elements from [element] on as lie together. */
struct place place_at(struct places *places, int64_t element, int64_t count);

/* How many of the [count] elements from [element] on lie in the first so many places. */
int64_t places_within(struct places *places, int64_t element, int64_t count, int place_count);

/* Copy elements of the input to [to], and from [from] to the output. Where a place is its own copy nothing is
 * done. */
void places_read(struct places *places, char *to, int64_t element, int64_t count);
void places_write(struct places *places, int64_t element, const char *from, int64_t count);

#endif
