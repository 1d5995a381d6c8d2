/* input.h: what rank 0 reads. Where hvdrun's stdin is a terminal, hvdrun reads for it, as rank 0 is in the
 * background there; anything else rank 0 inherits. */
#ifndef TOOLS_HVDRUN_INPUT_H
#define TOOLS_HVDRUN_INPUT_H

#include <poll.h>
#include <stddef.h>

#include "base/status.h"

#define INPUT_POLLS 2 /* entries that input_poll fills */

struct input {
    int pipe_fd; /* to rank 0; -1: there is nothing to carry, or no more */
    char bytes[4096];
    size_t first, end; /* of what was read and not passed on */
};

/* *rank_fdp is what rank 0 gets as stdin, and is the caller's; -1 where it inherits hvdrun's. */
int input_open(struct input *input, int *rank_fdp, struct hvd_error *err);

void input_poll(const struct input *input, struct pollfd fds[INPUT_POLLS]);
void input_work(struct input *input, const struct pollfd fds[INPUT_POLLS]);
void input_close(struct input *input);

#endif
