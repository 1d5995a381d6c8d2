/* strbuf.h: text put together in fixed memory, also in signal handlers: nothing here allocates, locks or
 * looks at the locale. */
#ifndef TRACE_STRBUF_H
#define TRACE_STRBUF_H

#include <stddef.h>
#include <stdint.h>

/* What does not fit is cut. */
struct strbuf {
    char *bytes;
    size_t used, capacity;
};

void strbuf_add_text(struct strbuf *strbuf, const char *text);
void strbuf_add_bytes(struct strbuf *strbuf, const void *bytes, size_t count);
void strbuf_add_number(struct strbuf *strbuf, int64_t number);

/* Spaces until [column], counted from [start], the value of strbuf->used where the line began. */
void strbuf_pad_to(struct strbuf *strbuf, size_t start, size_t column);

/* "text" with its quotes, as JSON wants it: a byte that is not UTF-8 becomes the character of that number. */
void strbuf_add_json(struct strbuf *strbuf, const char *text);

/* What is printable ASCII or UTF-8 as it is, other bytes as \x1b. */
void strbuf_add_printable(struct strbuf *strbuf, const char *text);

#endif
