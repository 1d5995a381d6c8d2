/* ask.c: run another program to its end, and collect what it writes. */
#include "config.h"
#include "tools/common/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/process_signal.h"

#define END_US       INT64_C(2000000) /* for a program to end, or when it has been told to */
#define LOOK_MS      20
#define ANSWER_BYTES ((size_t)1 << 30) /* at most */

/* What comes out of a pipe. */
struct pipe_output {
    int fd; /* -1: it has ended */
    char *text;
    size_t length, capacity;
};

/* A program that runs. */
struct call {
    pid_t pid;                     /* 0: it has ended */
    struct pipe_output outputs[2]; /* standard output and error */
};

/* ---- Start --------------------------------------------------------------------------------------- */

static int spawn(const char *const *words, char *const *environment, const int *fds, pid_t *pidp)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = posix_spawn_file_actions_adddup2(&actions, fds[i], STDOUT_FILENO + i);
    if (rc == 0)
        rc = posix_spawnp(pidp, words[0], &actions, NULL, (char *const *)words, environment);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static int start(struct call *call, const char *const *words, char *const *environment, struct hvd_error *err)
{
    int output[2] = {-1, -1};
    int complaints[2] = {-1, -1};
    int problem = pipe2(output, O_CLOEXEC) < 0 || pipe2(complaints, O_CLOEXEC) < 0 ? errno : 0;
    if (problem == 0)
        problem = spawn(words, environment, (const int[]){output[1], complaints[1]}, &call->pid);
    descriptors_close(&output[1]);
    descriptors_close(&complaints[1]);
    call->outputs[0].fd = output[0];
    call->outputs[1].fd = complaints[0];
    errno = problem;
    return problem == 0 ? HVD_OK : error_set_errno(err, "%s cannot be started", words[0]);
}

/* ---- While it runs ------------------------------------------------------------------------------- */

/* Always one byte more than is filled, for a final 0. */
static int make_room(struct pipe_output *output)
{
    if (output->length + 1 < output->capacity)
        return HVD_OK;
    size_t capacity = output->capacity == 0 ? 65536 : 2 * output->capacity;
    char *text = capacity > ANSWER_BYTES ? NULL : realloc(output->text, capacity);
    if (text == NULL)
        return HVD_ERR_NO_MEMORY;
    output->text = text;
    output->capacity = capacity;
    output->text[output->length] = 0;
    return HVD_OK;
}

static int read_output(struct pipe_output *output)
{
    int rc = make_room(output);
    if (rc != HVD_OK)
        return rc;
    ssize_t got = read(output->fd, output->text + output->length, output->capacity - output->length - 1);
    if (got > 0)
        output->length += (size_t)got;
    else if (got == 0 || errno != EINTR)
        descriptors_close(&output->fd);
    output->text[output->length] = 0;
    return HVD_OK;
}

static int collect(struct call *call, int64_t limit_us)
{
    struct pipe_output *outputs = call->outputs;
    int64_t deadline_us = clock_us() + limit_us;
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < 2; i++)
        rc = make_room(&outputs[i]);
    while (rc == HVD_OK && (outputs[0].fd >= 0 || outputs[1].fd >= 0) && clock_us() < deadline_us) {
        struct pollfd polled[] = {{.fd = outputs[0].fd, .events = POLLIN},
                                  {.fd = outputs[1].fd, .events = POLLIN}};
        if (poll(polled, 2, clock_ms_until(deadline_us)) <= 0)
            continue;
        for (int i = 0; rc == HVD_OK && i < 2; i++)
            rc = polled[i].revents != 0 ? read_output(&outputs[i]) : HVD_OK;
    }
    return rc;
}

/* ---- End ----------------------------------------------------------------------------------------- */

static void await_end(struct call *call)
{
    int64_t deadline_us = clock_us() + END_US;
    while (call->pid > 0 && clock_us() < deadline_us) {
        if (waitpid(call->pid, NULL, WNOHANG) != 0)
            call->pid = 0;
        else
            poll(NULL, 0, LOOK_MS);
    }
}

/* srun may wait for a node that has vanished, until Slurm gives the node up. A program
 * that still has its output open has used up its time. */
static void end(struct call *call)
{
    static const int signals[] = {0, SIGTERM, SIGKILL};
    bool writes = call->outputs[0].fd >= 0 || call->outputs[1].fd >= 0;
    for (size_t i = writes ? 1 : 0; call->pid > 0 && i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (signals[i] != 0)
            process_signal(call->pid, signals[i]);
        await_end(call);
    }
    descriptors_close(&call->outputs[0].fd);
    descriptors_close(&call->outputs[1].fd);
}

int ask_program(const char *const *words, char *const *environment, int64_t limit_us,
                struct program_answer *answer, struct hvd_error *err)
{
    struct call call = {.outputs = {{.fd = -1}, {.fd = -1}}};
    int rc = start(&call, words, environment, err);
    if (rc == HVD_OK && collect(&call, limit_us) != HVD_OK)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for what %s says", words[0]);
    end(&call);
    *answer = (struct program_answer){call.outputs[0].text, call.outputs[1].text};
    return rc;
}

void program_answer_free(struct program_answer *answer)
{
    free(answer->output);
    free(answer->complaints);
}
