/* input.c: forward terminal input to rank 0. */
#include "config.h"

#include "tools/hvdrun/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/descriptors.h"

int input_open(struct input *input, int *rank_fdp, struct hvd_error *err)
{
    int fds[2];
    input->pipe_fd = -1;
    input->first = input->end = 0;
    *rank_fdp = -1;
    if (!isatty(STDIN_FILENO))
        return HVD_OK;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_set_errno(err, "cannot make a pipe for rank 0's stdin");
    if (fcntl(fds[1], F_SETFL, O_NONBLOCK) < 0) {
        int status = error_set_errno(err, "cannot make a pipe for rank 0's stdin");
        close(fds[0]);
        close(fds[1]);
        return status;
    }
    input->pipe_fd = fds[1];
    *rank_fdp = fds[0];
    return HVD_OK;
}

/* The kernel stops a background job that reads from its terminal. */
static bool may_read(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

void input_poll(const struct input *input, struct pollfd fds[INPUT_POLLS])
{
    bool waiting = input->first < input->end;
    fds[0] = (struct pollfd){.fd = input->pipe_fd >= 0 && !waiting && may_read() ? STDIN_FILENO : -1,
                             .events = POLLIN};
    fds[1] = (struct pollfd){.fd = input->pipe_fd, .events = (short)(waiting ? POLLOUT : 0)};
}

void input_work(struct input *input, const struct pollfd fds[INPUT_POLLS])
{
    if (fds[0].fd >= 0 && fds[0].revents != 0) {
        ssize_t length = read(STDIN_FILENO, input->bytes, sizeof(input->bytes));
        if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR))
            input_close(input);
        input->first = 0;
        input->end = length > 0 ? (size_t)length : 0;
    }
    if (input->pipe_fd >= 0 && fds[1].revents & (POLLERR | POLLHUP)) {
        input_close(input);
        return;
    }
    if (input->pipe_fd < 0 || input->first == input->end)
        return;
    ssize_t written = write(input->pipe_fd, input->bytes + input->first, input->end - input->first);
    if (written > 0)
        input->first += (size_t)written;
    else if (written < 0 && errno != EAGAIN && errno != EINTR)
        input_close(input);
}

void input_close(struct input *input)
{
    descriptors_close(&input->pipe_fd);
    input->first = input->end = 0;
}
