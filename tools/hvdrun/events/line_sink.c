/* line_sink.c: writes lines of events to a file or a socket, and never waits for their reader. */
#include "config.h"

#include "tools/hvdrun/events/line_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptors.h"

#define SOCKET_PREFIX "unix:"

/* ---- Opening ------------------------------------------------------------------------------------ */

/* Connect to the reader, which must be there: connecting to a socket of this machine does not wait. Returns
 * the descriptor, or -1 with errno. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, length + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int open_where(const struct line_sink *sink)
{
    if (sink->is_socket)
        return connect_to(sink->where + strlen(SOCKET_PREFIX));
    return descriptors_open(sink->where, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
}

int line_sink_open(struct line_sink *sink, const char *where, struct hvd_error *err)
{
    sink->fd = -1;
    sink->is_socket = strncmp(where, SOCKET_PREFIX, strlen(SOCKET_PREFIX)) == 0;
    sink->where = where;
    sink->fd = open_where(sink);
    struct stat status;
    sink->polls = sink->fd >= 0 && fstat(sink->fd, &status) == 0 &&
                  (S_ISSOCK(status.st_mode) || S_ISFIFO(status.st_mode));
    if (sink->fd >= 0)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID, "--events=%.200s: %s; %s", where, strerror(errno),
                     sink->is_socket ? "expected a stream socket on which a reader listens: start it before"
                                     : "expected a file that can be written, or unix:PATH");
}

/* ---- Writing ------------------------------------------------------------------------------------ */

static void drop(struct line_sink *sink, int64_t lines)
{
    sink->dropped += lines;
    sink->dropped_all += lines;
}

/* The reader is gone, and what waits for it is lost. */
static void lose_reader(struct line_sink *sink)
{
    descriptors_close(&sink->fd);
    drop(sink, sink->pending_lines);
    sink->pending_bytes = 0;
    sink->pending_lines = 0;
}

static ssize_t write_some(const struct line_sink *sink, const char *bytes, size_t length)
{
    ssize_t count = 0;
    do {
        count = sink->is_socket ? send(sink->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : write(sink->fd, bytes, length);
    } while (count < 0 && errno == EINTR);
    return count;
}

static int64_t count_lines(const char *bytes, size_t length)
{
    int64_t lines = 0;
    for (size_t i = 0; i < length; i++)
        lines += bytes[i] == '\n';
    return lines;
}

void line_sink_flush(struct line_sink *sink)
{
    while (sink->fd >= 0 && sink->pending_bytes > 0) {
        ssize_t count = write_some(sink, sink->pending, sink->pending_bytes);
        bool is_full = count < 0 && (errno == EAGAIN || errno == ENOSPC || errno == EDQUOT);
        if (count < 0 && !is_full)
            lose_reader(sink);
        if (count <= 0)
            return;
        sink->pending_lines -= count_lines(sink->pending, (size_t)count);
        sink->pending_bytes -= (size_t)count;
        memmove(sink->pending, sink->pending + count, sink->pending_bytes);
    }
}

void line_sink_put(struct line_sink *sink, const char *line, size_t length)
{
    if (sink->where == NULL)
        return;
    line_sink_flush(sink);
    if (sink->fd < 0)
        sink->fd = open_where(sink);
    if (sink->fd < 0 || length > sizeof(sink->pending) - sink->pending_bytes) {
        drop(sink, 1);
        return;
    }
    memcpy(sink->pending + sink->pending_bytes, line, length);
    sink->pending_bytes += length;
    sink->pending_lines++;
    sink->dropped = 0; /* the line says it */
    line_sink_flush(sink);
}

int line_sink_fd(const struct line_sink *sink)
{
    return sink->where != NULL && sink->pending_bytes > 0 && sink->polls ? sink->fd : -1;
}

void line_sink_close(struct line_sink *sink)
{
    if (sink->where == NULL)
        return;
    line_sink_flush(sink);
    lose_reader(sink);
}
