/* streams.c: what the ranks of an agent write: reads it, and hands it on as far as hvdrun takes it. */
#include "config.h"
#include "tools/hvdrun/agent/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "tools/hvdrun/agent/messages.h"
#include "tools/hvdrun/pseudo_terminal.h"

#define EVENTS 64

struct streams {
    int ranks;
    bool terminal;
    streams_sink_f *sink;
    void *arg;
    int epoll_fd;
    size_t waiting; /* bytes that hvdrun has not taken yet */
    int fds[];      /* [2 * ranks]: stdout and stderr of each; -1: ended */
};

int streams_create(struct streams **streamsp, int ranks, bool terminal, streams_sink_f *sink, void *arg,
                   struct hvd_error *err)
{
    struct streams *streams = calloc(1, sizeof(*streams) + 2 * (size_t)ranks * sizeof(streams->fds[0]));
    if (streams == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the output of %d ranks", ranks);
    *streams = (struct streams){.ranks = ranks, .terminal = terminal, .sink = sink, .arg = arg};
    for (int i = 0; i < 2 * ranks; i++)
        streams->fds[i] = -1;
    streams->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (streams->epoll_fd < 0) {
        int status = error_set_errno(err, "cannot make an epoll descriptor");
        free(streams);
        return status;
    }
    *streamsp = streams;
    return HVD_OK;
}

void streams_destroy(struct streams *streams)
{
    if (streams == NULL)
        return;
    for (int i = 0; i < 2 * streams->ranks; i++)
        descriptors_close(&streams->fds[i]);
    descriptors_close(&streams->epoll_fd);
    free(streams);
}

static bool may_send(const struct streams *streams)
{
    return streams->waiting < AGENT_WINDOW_BYTES;
}

static void end_stream(struct streams *streams, int i)
{
    descriptors_close(&streams->fds[i]);
    streams->sink(streams->arg, i / 2, i % 2, NULL, 0);
}

/* Read once. Returns false at the end, or if there is nothing to read. */
static bool read_stream(struct streams *streams, int i)
{
    unsigned char bytes[AGENT_MESSAGE_BYTES];
    ssize_t length = read(streams->fds[i], bytes, sizeof(bytes));
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (length <= 0) { /* a pseudo-terminal says EIO when its other end is closed */
        end_stream(streams, i);
        return false;
    }
    streams->waiting += (size_t)length;
    streams->sink(streams->arg, i / 2, i % 2, bytes, (size_t)length);
    return true;
}

static int open_ends(const struct streams *streams, int which, int ends[2])
{
    if (which == 0 && streams->terminal && pseudo_terminal_open(ends, STDERR_FILENO, 0) == 0)
        return 0;
    return pipe2(ends, O_CLOEXEC);
}

static int add(struct streams *streams, int i, int *write_fdp)
{
    int ends[2];
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
    if (open_ends(streams, i % 2, ends) < 0)
        return -1;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(streams->epoll_fd, EPOLL_CTL_ADD, ends[0], &event) < 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    streams->fds[i] = ends[0];
    *write_fdp = ends[1];
    return 0;
}

int streams_add(struct streams *streams, int rank, int fds[3], struct hvd_error *err)
{
    streams_drain(streams, rank);
    for (int which = 0; which < 2; which++) {
        int i = 2 * rank + which;
        if (streams->fds[i] >= 0)
            end_stream(streams, i);
        if (add(streams, i, &fds[1 + which]) < 0)
            return error_set_errno(err, "cannot make the pipes of rank %d", rank);
    }
    return HVD_OK;
}

void streams_taken(struct streams *streams, size_t bytes)
{
    streams->waiting -= bytes < streams->waiting ? bytes : streams->waiting;
}

int streams_fd(const struct streams *streams)
{
    return may_send(streams) ? streams->epoll_fd : -1;
}

/* Each ready stream once, so that all get their turn. */
void streams_work(struct streams *streams)
{
    struct epoll_event events[EVENTS];
    int count = may_send(streams) ? epoll_wait(streams->epoll_fd, events, EVENTS, 0) : 0;
    for (int i = 0; i < count && may_send(streams); i++)
        if (streams->fds[events[i].data.u32] >= 0)
            read_stream(streams, (int)events[i].data.u32);
}

void streams_drain(struct streams *streams, int rank)
{
    for (int i = 2 * rank; i < 2 * rank + 2; i++)
        while (streams->fds[i] >= 0 && may_send(streams) && read_stream(streams, i))
            continue;
}

void streams_finish(struct streams *streams)
{
    for (int i = 0; i < 2 * streams->ranks; i++) {
        while (streams->fds[i] >= 0 && read_stream(streams, i))
            continue;
        if (streams->fds[i] >= 0)
            end_stream(streams, i);
    }
}
