/* places.c: where the elements of a batch lie in this member's memory, in one piece or in spans. */
#include "plane/places.h"

#include <string.h>

/* The span that holds [element]. */
static const struct plane_span *span_of(const struct plane_batch *batch, int64_t element)
{
    int low = 0;
    int high = batch->span_count - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (batch->spans[middle].begin <= element)
            low = middle;
        else
            high = middle - 1;
    }
    return &batch->spans[low];
}

static struct place offset_by(const void *input, void *output, int64_t offset, int64_t count)
{
    return (struct place){input == NULL ? NULL : (const char *)input + offset,
                          output == NULL ? NULL : (char *)output + offset, count};
}

struct place place_at(const struct plane_batch *batch, int64_t bytes, int64_t element, int64_t count)
{
    if (batch->spans == NULL)
        return offset_by(batch->input, batch->output, element * bytes, count);
    const struct plane_span *span = span_of(batch, element);
    int64_t inside = element - span->begin;
    int64_t left = span->count - inside;
    return offset_by(span->input, span->output, inside * bytes, left < count ? left : count);
}

void places_read(const struct plane_batch *batch, int64_t bytes, char *to, int64_t element, int64_t count)
{
    while (count > 0) {
        struct place place = place_at(batch, bytes, element, count);
        if (to != place.input)
            memcpy(to, place.input, (size_t)(place.count * bytes));
        to += place.count * bytes;
        element += place.count;
        count -= place.count;
    }
}

void places_write(const struct plane_batch *batch, int64_t bytes, int64_t element, const char *from,
                  int64_t count)
{
    while (count > 0) {
        struct place place = place_at(batch, bytes, element, count);
        if (from != place.output)
            memcpy(place.output, from, (size_t)(place.count * bytes));
        from += place.count * bytes;
        element += place.count;
        count -= place.count;
    }
}
