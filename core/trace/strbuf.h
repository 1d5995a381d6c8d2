/* strbuf.h: text put together in fixed memory, also in signal handlers: nothing here allocates, locks or
 * looks at the locale. */
#ifndef TRACE_STRBUF_H
#define TRACE_STRBUF_H

#include <stddef.h>
#include <stdint.h>

/* What does not fit is cut. */
struct pad {
    char *bytes;
    size_t used, room;
};

void pad_text(struct pad *pad, const char *text);
void pad_bytes(struct pad *pad, const void *bytes, size_t count);
void pad_number(struct pad *pad, int64_t number);

/* Spaces until [column], counted from [start], the value of pad->used where the line began. */
void pad_to(struct pad *pad, size_t start, size_t column);

/* "text" with its quotes, as JSON wants it: a byte that is not UTF-8 becomes the character of that number. */
void pad_json(struct pad *pad, const char *text);

/* What is printable ASCII or UTF-8 as it is, other bytes as \x1b. */
void pad_plain(struct pad *pad, const char *text);

#endif
