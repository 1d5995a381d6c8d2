/* strbuf.h: builds text in fixed memory. Safe in signal handlers: nothing here allocates, locks or reads the
 * locale. */
#ifndef TRACE_STRBUF_H
#define TRACE_STRBUF_H

#include <stddef.h>
#include <stdint.h>

/* Text that does not fit is cut. */
struct strbuf {
    char *bytes;
    size_t used, capacity;
};

void strbuf_add_text(struct strbuf *strbuf, const char *text);
void strbuf_add_bytes(struct strbuf *strbuf, const void *bytes, size_t count);
void strbuf_add_number(struct strbuf *strbuf, int64_t number);
void strbuf_add_hex(struct strbuf *strbuf, uint64_t number); /* 0x1f */

/* At least one space, and more up to [column]. [start]: strbuf->used where the line began. */
void strbuf_pad_to(struct strbuf *strbuf, size_t start, size_t column);

/* [text] as a JSON string, with its quotes. A byte that is not UTF-8 becomes the character of that number. */
void strbuf_add_json(struct strbuf *strbuf, const char *text);

/* Printable ASCII and UTF-8 unchanged, other bytes as \x1b. */
void strbuf_add_printable(struct strbuf *strbuf, const char *text);

/* Write all bytes to [fd], and empty [strbuf]: 0, or -1 with errno. */
int strbuf_flush(struct strbuf *strbuf, int fd);

#endif
