/* output.h: carry what the ranks write to hvdrun's stdout and stderr. */
#ifndef TOOLS_HVDRUN_OUTPUT_H
#define TOOLS_HVDRUN_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define OUTPUT_POLLS 4 /* entries that output_poll fills */

struct output;

int output_create(struct output **outputp, int size, bool prefix, struct hvd_error *err);
void output_destroy(struct output *output);

/* Make the pipes of a rank; the ends it writes go to write_fds[1] and [2], and are the caller's. */
int output_add(struct output *output, int rank, int write_fds[3], struct hvd_error *err);

/* What to wait for, and in how many ms at the latest (-1: no limit) output_work is to be called. */
void output_poll(struct output *output, struct pollfd fds[OUTPUT_POLLS], int *timeout_msp);

/* Read what is there and write what fits. Never blocks. */
void output_work(struct output *output);

/* The ranks are gone: true when everything they wrote is out or cannot be written. What is left in the pipes
 * is read. */
bool output_finish(struct output *output);

/* Why stdout or stderr could not be written, once each; NULL where nothing is to be said. */
const char *output_complaint(struct output *output);

/* True when something that hvdrun says on stderr would land on a line that a rank began. */
bool output_mid_line(const struct output *output);

#endif
