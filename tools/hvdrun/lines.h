/* lines.h: make one text of what several ranks write: whole lines, each with its rank before it. Pure. */
#ifndef TOOLS_HVDRUN_LINES_H
#define TOOLS_HVDRUN_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define LINES_MAX_LINE 65536 /* a longer line is passed on in pieces */

/* Bytes on their way out. A zeroed struct is empty. */
struct text_buffer {
    char *bytes;
    size_t first, end, room; /* in use: first .. end */
};

/* What has been put together for one descriptor. */
struct lines {
    struct text_buffer out;
    bool prefix;
    int open_rank; /* of the line that was begun and not ended, or -1 */
    bool failed;   /* memory ran out: something was lost */
};

/* What one rank wrote and is not passed on yet: the beginning of a line. A zeroed struct is empty. */
struct line_buffer {
    int rank;
    char *bytes;
    size_t used, room;
};

void lines_init(struct lines *lines, bool prefix);
void lines_fini(struct lines *lines);

/* Room for at least one more byte behind what is buffered; NULL where memory ran out. */
char *line_buffer_room(struct line_buffer *buffer, size_t *roomp);
void line_buffer_fini(struct line_buffer *buffer);

/* [added] bytes were written to line_buffer_room: pass on what are whole lines, or pieces of a longer one.
 * Returns whether there were any. */
bool lines_feed(struct lines *lines, struct line_buffer *buffer, size_t added);

/* Pass on the beginning of a line as well: its end is slow to come. */
void lines_flush(struct lines *lines, struct line_buffer *buffer);

/* The rank will write no more: pass on all, and end its line where there are prefixes. */
void lines_end(struct lines *lines, struct line_buffer *buffer);

/* [count] bytes of lines->out were written. */
void text_buffer_drop(struct text_buffer *text, size_t count);

#endif
