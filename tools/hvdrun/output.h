/* output.h: forward the ranks' output to hvdrun's stdout and stderr. */
#ifndef TOOLS_HVDRUN_OUTPUT_H
#define TOOLS_HVDRUN_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "topo/bitmap.h"
#include "base/status.h"
#include "tools/hvdrun/line_prefix.h"

#define OUTPUT_POLLS 4 /* entries that output_poll fills */

/* What a rank's standard output is. Standard error is always a pipe: programs do not collect what they write
 * there. */
enum output_pty {
    OUTPUT_PTY_AUTO, /* a pseudo-terminal, or a pipe where none can be had, or where lines get no prefix and
                        hvdrun's own output is not a terminal: those bytes are for a program */
    OUTPUT_PTY_ON,
    OUTPUT_PTY_OFF
};

struct output_options {
    bool prefix; /* before each line: */
    struct line_prefix line_prefix;
    bool timestamps; /* and the time of day before that */
    enum output_pty pty;
    const char *directory; /* for files with each rank's output; NULL: none */
    bool only;             /* show the output of these ranks alone; files get that of all */
    struct bitmap ranks;
};

struct output;

/* Makes the directory, with its parents, if it is not there. [options] must stay valid until output_destroy.
 */
int output_create(struct output **outputp, int size, const struct output_options *options,
                  struct hvd_error *err);
void output_destroy(struct output *output);

/* Create the pipes, or the pseudo-terminal, of a rank. Its ends go to write_fds[1] and [2]; the caller closes
 * them. For a rank that is started again the earlier ones are closed. */
int output_add(struct output *output, int rank, int write_fds[3], struct hvd_error *err);

/* In place of output_add for a rank on another machine, whose output output_feed brings: what it writes to
 * stdout, [which] 0, or stderr, 1; no bytes at its end. While there is no room, nothing more should be
 * brought. */
int output_expect(struct output *output, int rank, struct hvd_error *err);
void output_feed(struct output *output, int rank, int which, const char *bytes, size_t length);
bool output_has_room(const struct output *output);

/* Fill in the descriptors to poll, and the time in ms after which output_work must be called at the latest
 * (-1: no limit). */
void output_poll(struct output *output, struct pollfd fds[OUTPUT_POLLS], int *timeout_msp);

/* Read what has arrived and write what the descriptors take. Never blocks. */
void output_work(struct output *output);

/* Call it after the ranks have ended. Reads what is left in the pipes. Returns true once everything was
 * written, or cannot be. */
bool output_finish(struct output *output);

/* Returns why stdout, stderr or a file could not be written, once for each; NULL if there is nothing to
 * report. */
const char *output_complaint(struct output *output);

/* True once: nobody reads hvdrun's output any more, and the ranks, which write to pseudo-terminals, do not
 * get the SIGPIPE that a pipe would give them, or are on other machines. */
bool output_take_hang_up(struct output *output);

/* The exception that ended a Python program, as far as it has written a traceback to stderr since [rank] was
 * started; "": none. */
const char *output_exception(const struct output *output, int rank);

/* Whether a rank's unfinished line is the last on stderr, so that a message of hvdrun would continue it. */
bool output_mid_line(const struct output *output);

#endif
