/* lines.c: merge the lines of several ranks. */
#include "tools/hvdrun/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 1024

void lines_init(struct lines *lines, bool prefix)
{
    *lines = (struct lines){.prefix = prefix, .open_rank = -1};
}

void lines_fini(struct lines *lines)
{
    free(lines->out.bytes);
    lines->out = (struct text_buffer){0};
}

char *line_buffer_room(struct line_buffer *buffer, size_t *roomp)
{
    if (buffer->used == buffer->room) {
        size_t room = buffer->room == 0 ? FIRST_ROOM : 2 * buffer->room;
        char *bytes = realloc(buffer->bytes, room);
        if (bytes == NULL)
            return NULL;
        buffer->bytes = bytes;
        buffer->room = room;
    }
    *roomp = buffer->room - buffer->used;
    return buffer->bytes + buffer->used;
}

void line_buffer_fini(struct line_buffer *buffer)
{
    free(buffer->bytes);
    buffer->bytes = NULL;
    buffer->used = buffer->room = 0;
}

void text_buffer_drop(struct text_buffer *text, size_t count)
{
    text->first += count;
    if (text->first == text->end)
        text->first = text->end = 0;
}

static void append(struct lines *lines, const char *bytes, size_t count)
{
    struct text_buffer *out = &lines->out;
    if (count > out->room - out->end && out->first > 0) {
        memmove(out->bytes, out->bytes + out->first, out->end - out->first);
        out->end -= out->first;
        out->first = 0;
    }
    if (count > out->room - out->end) {
        size_t room = 2 * (out->end + count);
        char *grown = realloc(out->bytes, room);
        if (grown == NULL) {
            lines->failed = true;
            return;
        }
        out->bytes = grown;
        out->room = room;
    }
    memcpy(out->bytes + out->end, bytes, count);
    out->end += count;
}

/* Append a line or a part of one. With prefixes, if another rank's line is still open, end it first, so that
 * no line has text of two ranks. Without prefixes the bytes are passed on unchanged. */
static void append_part(struct lines *lines, int rank, const char *bytes, size_t count)
{
    if (lines->prefix && lines->open_rank >= 0 && lines->open_rank != rank) {
        append(lines, "\n", 1);
        lines->open_rank = -1;
    }
    if (lines->open_rank < 0 && lines->prefix) {
        char prefix[16];
        int length = snprintf(prefix, sizeof(prefix), "[%d] ", rank);
        append(lines, prefix, (size_t)length);
    }
    append(lines, bytes, count);
    lines->open_rank = bytes[count - 1] == '\n' ? -1 : rank;
}

bool lines_feed(struct lines *lines, struct line_buffer *buffer, size_t added)
{
    size_t done = 0;
    size_t look = buffer->used; /* there is no newline before it */
    buffer->used += added;
    while (look < buffer->used) {
        const char *newline = memchr(buffer->bytes + look, '\n', buffer->used - look);
        if (newline == NULL)
            break;
        look = (size_t)(newline - buffer->bytes) + 1;
        append_part(lines, buffer->rank, buffer->bytes + done, look - done);
        done = look;
    }
    buffer->used -= done;
    if (done > 0)
        memmove(buffer->bytes, buffer->bytes + done, buffer->used);
    if (buffer->used < LINES_MAX_LINE)
        return done > 0;
    lines_flush(lines, buffer);
    return true;
}

void lines_flush(struct lines *lines, struct line_buffer *buffer)
{
    if (buffer->used > 0)
        append_part(lines, buffer->rank, buffer->bytes, buffer->used);
    buffer->used = 0;
}

void lines_end(struct lines *lines, struct line_buffer *buffer)
{
    lines_flush(lines, buffer);
    if (lines->prefix && lines->open_rank == buffer->rank) {
        append(lines, "\n", 1);
        lines->open_rank = -1;
    }
}
