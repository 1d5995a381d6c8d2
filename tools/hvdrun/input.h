/* input.h: rank 0's stdin. Rank 0 is in a background process group and must not read from a terminal, so
 * hvdrun reads from it and forwards the bytes through a pipe. Any other stdin rank 0 inherits. */
#ifndef TOOLS_HVDRUN_INPUT_H
#define TOOLS_HVDRUN_INPUT_H

#include <poll.h>
#include <stddef.h>

#include "base/status.h"

#define INPUT_POLLS 2 /* entries that input_poll fills */

struct input {
    int pipe_fd; /* to rank 0; -1: nothing is forwarded, or no more */
    char bytes[4096];
    size_t first, end; /* the bytes that were read and not yet written */
};

/* *rank_fdp becomes rank 0's stdin, which the caller closes; -1 if rank 0 inherits hvdrun's. */
int input_open(struct input *input, int *rank_fdp, struct hvd_error *err);

void input_poll(const struct input *input, struct pollfd fds[INPUT_POLLS]);
void input_work(struct input *input, const struct pollfd fds[INPUT_POLLS]);
void input_close(struct input *input);

#endif
