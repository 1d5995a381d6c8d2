/* places.h: where the elements of a batch lie in this member's memory, in one piece or in spans. Pure. */
#ifndef PLANE_PLACES_H
#define PLANE_PLACES_H

#include "plane/plane.h"

/* Elements that lie together. Not every member has both: NULL stays NULL. */
struct place {
    const char *input;
    char *output;
    int64_t count;
};

/* As many of the [count] elements from [element] on as lie together; [bytes] each. */
struct place place_at(const struct plane_batch *batch, int64_t bytes, int64_t element, int64_t count);

/* Copy elements of the input to [to], and from [from] to the output. Where a place is its own copy nothing is
 * done. */
void places_read(const struct plane_batch *batch, int64_t bytes, char *to, int64_t element, int64_t count);
void places_write(const struct plane_batch *batch, int64_t bytes, int64_t element, const char *from,
                  int64_t count);

#endif
