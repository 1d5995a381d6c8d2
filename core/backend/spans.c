/* spans.c: where the elements of a batch lie in this member's memory, in one piece or in spans. */
#include "backend/spans.h"

#include <string.h>

static bool holds(const struct plane_batch *batch, int span, int64_t element)
{
    return span < batch->span_count && element >= batch->spans[span].begin &&
           element < batch->spans[span].begin + batch->spans[span].count;
}

static int search(const struct plane_batch *batch, int64_t element)
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
    return low;
}

/* The span that holds [element]. */
static const struct plane_span *span_of(struct places *places, int64_t element)
{
    if (holds(places->batch, places->span + 1, element))
        places->span++;
    else if (!holds(places->batch, places->span, element))
        places->span = search(places->batch, element);
    return &places->batch->spans[places->span];
}

static struct place offset_by(const void *input, void *output, int64_t offset, int64_t count)
{
    return (struct place){input == NULL ? NULL : (const char *)input + offset,
                          output == NULL ? NULL : (char *)output + offset, count};
}

struct place place_at(struct places *places, int64_t element, int64_t count)
{
    const struct plane_batch *batch = places->batch;
    if (batch->spans == NULL)
        return offset_by(batch->input, batch->output, element * places->bytes, count);
    const struct plane_span *span = span_of(places, element);
    int64_t inside = element - span->begin;
    int64_t left = span->count - inside;
    return offset_by(span->input, span->output, inside * places->bytes, left < count ? left : count);
}

int64_t places_within(struct places *places, int64_t element, int64_t count, int place_count)
{
    const struct plane_batch *batch = places->batch;
    if (batch->spans == NULL)
        return count;
    int64_t last = span_of(places, element) - batch->spans + place_count - 1;
    if (last >= batch->span_count)
        return count;
    int64_t within = batch->spans[last].begin + batch->spans[last].count - element;
    return within < count ? within : count;
}

void places_read(struct places *places, char *to, int64_t element, int64_t count)
{
    while (count > 0) {
        struct place place = place_at(places, element, count);
        if (to != place.input)
            memcpy(to, place.input, (size_t)(place.count * places->bytes));
        to += place.count * places->bytes;
        element += place.count;
        count -= place.count;
    }
}

void places_write(struct places *places, int64_t element, const char *from, int64_t count)
{
    while (count > 0) {
        struct place place = place_at(places, element, count);
        if (from != place.output)
            memcpy(place.output, from, (size_t)(place.count * places->bytes));
        from += place.count * places->bytes;
        element += place.count;
        count -= place.count;
    }
}
