/* lines.c: merge the lines of several ranks. */
#include "config.h"

#include "tools/hvdrun/lines.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 1024

void lines_init(struct lines *lines, const struct line_prefix *prefix, bool terminal)
{
    *lines = (struct lines){.prefix = prefix, .terminal = terminal, .open_rank = -1, .bar_rank = -1};
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
    if (count == 0) /* there may be no room yet */
        return;
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

static void append_prefix(struct lines *lines, int rank)
{
    struct line_prefix_part part = {.next = NULL};
    append(lines, lines->stamp, strlen(lines->stamp));
    while (line_prefix_next(lines->prefix, rank, &part))
        append(lines, part.text, part.length);
}

/* Take a bar off the terminal: to the start of its line, and erase that. */
static void erase_bar(struct lines *lines)
{
    static const char erase[] = "\r\033[K";
    append(lines, erase, sizeof(erase) - 1);
    lines->open_rank = -1;
    lines->open_bar = false;
}

/* Append a line or a part of one. With prefixes, if another rank's line is still open, end it first, so that
 * no line has text of two ranks. Without prefixes the bytes are passed on unchanged. */
static void append_part(struct lines *lines, int rank, const char *bytes, size_t count)
{
    if (lines->open_bar)
        erase_bar(lines);
    if (lines->prefix != NULL && lines->open_rank >= 0 && lines->open_rank != rank) {
        append(lines, "\n", 1);
        lines->open_rank = -1;
    }
    if (lines->open_rank < 0 && lines->prefix != NULL)
        append_prefix(lines, rank);
    append(lines, bytes, count);
    lines->open_rank = bytes[count - 1] == '\n' ? -1 : rank;
}

/* Where the last text of a rewritten line begins in [bytes], which may end in carriage returns; 0: it was not
 * rewritten. */
static size_t last_text(const char *bytes, size_t count)
{
    while (count > 0 && bytes[count - 1] == '\r')
        count--;
    const char *before = count > 0 ? memrchr(bytes, '\r', count) : NULL;
    return before == NULL ? 0 : (size_t)(before - bytes) + 1;
}

/* Append a whole line, newline included; of a bar only its last text. */
static void append_line(struct lines *lines, struct line_buffer *buffer, const char *bytes, size_t count)
{
    size_t begin = lines->prefix != NULL ? last_text(bytes, count - 1) : 0;
    append_part(lines, buffer->rank, bytes + begin, count - begin);
    buffer->is_bar = false;
    if (lines->bar_rank == buffer->rank)
        lines->bar_rank = -1;
}

static void drop_front(struct line_buffer *buffer, size_t count)
{
    buffer->used -= count;
    if (count > 0)
        memmove(buffer->bytes, buffer->bytes + count, buffer->used);
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
        append_line(lines, buffer, buffer->bytes + done, look - done);
        done = look;
    }
    drop_front(buffer, done);
    if (lines->prefix != NULL && buffer->used > 0 && memchr(buffer->bytes, '\r', buffer->used) != NULL) {
        buffer->is_bar = true;
        drop_front(buffer, last_text(buffer->bytes, buffer->used));
    }
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
    buffer->is_bar = false;
}

/* On a terminal the bar stays the last line, and is overwritten. In a file each look at it is a line. */
static void show_bar(struct lines *lines, const struct line_buffer *buffer)
{
    size_t count = buffer->used;
    while (count > 0 && buffer->bytes[count - 1] == '\r')
        count--;
    if (count == 0)
        return;
    append_part(lines, buffer->rank, buffer->bytes, count);
    lines->open_bar = lines->terminal;
    if (lines->terminal)
        return;
    append(lines, "\n", 1);
    lines->open_rank = -1;
}

void lines_show(struct lines *lines, struct line_buffer *buffer)
{
    if (!buffer->is_bar) {
        lines_flush(lines, buffer);
        return;
    }
    if (lines->bar_rank >= 0 && lines->bar_rank < buffer->rank)
        return;
    lines->bar_rank = buffer->rank;
    show_bar(lines, buffer);
}

void lines_end(struct lines *lines, struct line_buffer *buffer)
{
    if (lines->open_bar && lines->open_rank == buffer->rank)
        erase_bar(lines);
    lines_flush(lines, buffer);
    if (lines->bar_rank == buffer->rank)
        lines->bar_rank = -1;
    if (lines->prefix != NULL && lines->open_rank == buffer->rank) {
        append(lines, "\n", 1);
        lines->open_rank = -1;
    }
}
