/* spans.c: where the elements of a batch lie in this member's memory, in one buffer or in spans. */
#include "backend/spans.h"

#include <string.h>

static bool holds(const struct backend_batch *batch, int span, int64_t element)
{
    return span < batch->span_count && element >= batch->spans[span].begin &&
           element < batch->spans[span].begin + batch->spans[span].count;
}

static int find_span(const struct backend_batch *batch, int64_t element)
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
static const struct backend_span *span_of(struct span_cursor *spans, int64_t element)
{
    if (holds(spans->batch, spans->span + 1, element))
        spans->span++;
    else if (!holds(spans->batch, spans->span, element))
        spans->span = find_span(spans->batch, element);
    return &spans->batch->spans[spans->span];
}

static struct contig contig_at(const void *input, void *output, int64_t offset, int64_t count)
{
    return (struct contig){input == NULL ? NULL : (const char *)input + offset,
                           output == NULL ? NULL : (char *)output + offset, count};
}

struct contig spans_at(struct span_cursor *spans, int64_t element, int64_t count)
{
    const struct backend_batch *batch = spans->batch;
    if (batch->spans == NULL)
        return contig_at(batch->input, batch->output, element * spans->bytes, count);
    const struct backend_span *span = span_of(spans, element);
    int64_t inside = element - span->begin;
    int64_t left = span->count - inside;
    return contig_at(span->input, span->output, inside * spans->bytes, left < count ? left : count);
}

int64_t spans_within(struct span_cursor *spans, int64_t element, int64_t count, int span_count)
{
    const struct backend_batch *batch = spans->batch;
    if (batch->spans == NULL)
        return count;
    int64_t last = span_of(spans, element) - batch->spans + span_count - 1;
    if (last >= batch->span_count)
        return count;
    int64_t within = batch->spans[last].begin + batch->spans[last].count - element;
    return within < count ? within : count;
}

void spans_read(struct span_cursor *spans, char *to, int64_t element, int64_t count)
{
    while (count > 0) {
        struct contig place = spans_at(spans, element, count);
        if (to != place.input)
            memcpy(to, place.input, (size_t)(place.count * spans->bytes));
        to += place.count * spans->bytes;
        element += place.count;
        count -= place.count;
    }
}

void spans_write(struct span_cursor *spans, int64_t element, const char *from, int64_t count)
{
    while (count > 0) {
        struct contig place = spans_at(spans, element, count);
        if (from != place.output)
            memcpy(place.output, from, (size_t)(place.count * spans->bytes));
        from += place.count * spans->bytes;
        element += place.count;
        count -= place.count;
    }
}
