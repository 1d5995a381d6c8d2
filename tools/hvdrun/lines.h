/* lines.h: merge the output of several ranks into one text of whole lines, each prefixed with its rank. Does
 * no I/O. */
#ifndef TOOLS_HVDRUN_LINES_H
#define TOOLS_HVDRUN_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define LINES_MAX_LINE 65536 /* a longer line is passed on in parts */

/* Bytes that wait to be written. A zeroed struct is empty. */
struct text_buffer {
    char *bytes;
    size_t first, end, room; /* first .. end - 1 are in use */
};

/* The merged output for one descriptor. */
struct lines {
    struct text_buffer out;
    bool prefix;
    int open_rank; /* whose unfinished line is last in [out], or -1 */
    bool failed;   /* memory ran out, and output was lost */
};

/* The beginning of a line that one rank wrote and that is not in [out] yet. A zeroed struct is empty. */
struct line_buffer {
    int rank;
    char *bytes;
    size_t used, room;
};

void lines_init(struct lines *lines, bool prefix);
void lines_fini(struct lines *lines);

/* Returns space for at least one more byte after the buffered ones, and its size in *roomp; NULL if memory
 * ran out. */
char *line_buffer_room(struct line_buffer *buffer, size_t *roomp);
void line_buffer_fini(struct line_buffer *buffer);

/* Call it after [added] bytes were written to line_buffer_room. Passes on whole lines, and parts of lines
 * longer than LINES_MAX_LINE. Returns whether there were any. */
bool lines_feed(struct lines *lines, struct line_buffer *buffer, size_t added);

/* Pass on an unfinished line as well. */
void lines_flush(struct lines *lines, struct line_buffer *buffer);

/* The rank's stream has ended: pass on everything, and end its last line if there are prefixes. */
void lines_end(struct lines *lines, struct line_buffer *buffer);

/* Drop the first [count] bytes of lines->out, which were written. */
void text_buffer_drop(struct text_buffer *text, size_t count);

#endif
