/* lines.h: merge the output of several ranks into one text of whole lines, each after the prefix of its rank.
 * Does no I/O.
 *
 * A progress bar is a line that a program writes again and again, with carriage returns. With prefixes only
 * its last text becomes a line. Meanwhile the bar of the lowest rank that has one is shown. */
#ifndef TOOLS_HVDRUN_LINES_H
#define TOOLS_HVDRUN_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/hvdrun/line_prefix.h"

#define LINES_MAX_LINE 65536 /* a longer line is passed on in parts */

/* Bytes that wait to be written. A zeroed struct is empty. */
struct text_buffer {
    char *bytes;
    size_t first, end, room; /* first .. end - 1 are in use */
};

/* The merged output for one descriptor. */
struct lines {
    struct text_buffer out;
    const struct line_prefix *prefix; /* of each line; NULL: none */
    char stamp[16];                   /* before the prefix; "": none */
    bool terminal;                    /* [out] goes to a terminal, where a bar can be overwritten */
    int open_rank;                    /* whose unfinished line is last in [out], or -1 */
    bool open_bar;                    /* that line is a bar */
    int bar_rank;                     /* whose bar is shown, or -1 */
    bool failed;                      /* memory ran out, and output was lost */
};

/* The beginning of a line that one rank wrote and that is not in [out] yet. A zeroed struct is empty. */
struct line_buffer {
    int rank;
    bool is_bar; /* it has been rewritten; [bytes] holds its last text */
    char *bytes;
    size_t used, room;
};

/* [prefix] is borrowed. */
void lines_init(struct lines *lines, const struct line_prefix *prefix, bool terminal);
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

/* Show an unfinished line to whoever waits for it: pass it on; of a bar show what it is now, if it is this
 * rank's turn. */
void lines_show(struct lines *lines, struct line_buffer *buffer);

/* The rank's stream has ended: pass on everything, and end its last line if there are prefixes. */
void lines_end(struct lines *lines, struct line_buffer *buffer);

/* Drop the first [count] bytes of lines->out, which were written. */
void text_buffer_drop(struct text_buffer *text, size_t count);

#endif
