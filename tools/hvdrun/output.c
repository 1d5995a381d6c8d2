/* output.c: read the ranks' pipes and merge them into hvdrun's stdout and stderr. */
#include "config.h"

#include "tools/hvdrun/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/status.h"
#include "tools/hvdrun/lines.h"
#include "tools/hvdrun/pseudo_terminal.h"
#include "tools/hvdrun/rank_files.h"
#include "tools/hvdrun/traceback.h"

#define HIGH_WATER_BYTES (256 * 1024) /* stop reading while this much waits to be written */
#define PATIENCE_US      100000       /* show an unfinished line after this time */
#define BAR_TERMINAL_US  500000       /* between two looks at a progress bar, on a terminal */
#define BAR_FILE_US      10000000     /* the same, where each look becomes a line */
#define HANG_UP_US       100000       /* from SIGPIPE until a pseudo-terminal is closed */
#define WRITE_BYTES \
    4096 /* at a time: a pipe that poll reports as writable takes this much without blocking */
#define EVENTS 64

/* The pipe or pseudo-terminal from one rank. */
struct output_stream {
    int fd;      /* -1 after end of file */
    int file_fd; /* gets all of it as well; -1: there is none */
    bool hidden; /* only the file gets it */
    bool begun;  /* the rank has been started before */
    struct line_buffer buffer;
    int64_t begun_us; /* since when the buffer holds an unfinished line; 0: it holds none */
};

/* hvdrun's stdout or stderr, with the streams of all ranks that go there. */
struct sink {
    int fd;
    int epoll_fd; /* of the streams */
    bool is_file; /* a regular file: always writable */
    const struct output_options *options;
    int file_error;   /* why a file of a rank could not be written, until it was reported */
    bool broken;      /* it cannot be written any more */
    bool is_fed;      /* by output_feed */
    bool hung_up;     /* it broke because its reader left, and that was not reported yet */
    int64_t close_us; /* when to close the pseudo-terminals of a sink that hung up; 0: not */
    enum output_pty pty;
    int error; /* why it is broken, until it was reported; 0: nothing to report */
    struct lines lines;
    struct output_stream *streams; /* by rank */
    struct traceback *tracebacks;  /* by rank, of stderr; NULL: of stdout */
};

struct output {
    int size;
    struct sink sinks[2];
    char complaint[128];
};

static int sink_init(struct sink *sink, int fd, int size, const struct output_options *options,
                     struct hvd_error *err)
{
    struct stat info;
    sink->fd = fd;
    sink->pty = OUTPUT_PTY_OFF;
    sink->is_file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    sink->options = options;
    lines_init(&sink->lines, options->prefix ? &options->line_prefix : NULL, isatty(fd));
    sink->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (sink->epoll_fd < 0)
        return error_set_errno(err, "cannot make an epoll descriptor");
    sink->streams = calloc((size_t)size, sizeof(sink->streams[0]));
    if (sink->streams == NULL)
        return error_set_errno(err, "cannot carry the output of %d ranks", size);
    for (int rank = 0; rank < size; rank++)
        sink->streams[rank] =
            (struct output_stream){.fd = -1,
                                   .file_fd = -1,
                                   .hidden = options->only && !bitmap_is_set(&options->ranks, rank),
                                   .buffer = {.rank = rank}};
    return HVD_OK;
}

int output_create(struct output **outputp, int size, const struct output_options *options,
                  struct hvd_error *err)
{
    if (options->directory != NULL && rank_files_make_directory(options->directory) < 0)
        return error_set_errno(err, "--output-dir=%s: the directory cannot be made", options->directory);
    struct output *output = calloc(1, sizeof(*output));
    if (output == NULL)
        return error_set_errno(err, "cannot carry the output of %d ranks", size);
    output->size = size;
    output->sinks[0].epoll_fd = output->sinks[1].epoll_fd = -1;
    int status = sink_init(&output->sinks[0], STDOUT_FILENO, size, options, err);
    if (status == HVD_OK)
        status = sink_init(&output->sinks[1], STDERR_FILENO, size, options, err);
    if (status != HVD_OK) {
        output_destroy(output);
        return status;
    }
    output->sinks[1].tracebacks = calloc((size_t)size, sizeof(struct traceback)); /* without memory: none */
    bool for_a_program = !options->prefix && !isatty(STDOUT_FILENO);
    output->sinks[0].pty = options->pty == OUTPUT_PTY_AUTO && for_a_program ? OUTPUT_PTY_OFF : options->pty;
    *outputp = output;
    return HVD_OK;
}

/* Closing the descriptor also removes it from the epoll set. */
static void stream_close(struct output_stream *stream)
{
    descriptors_close(&stream->fd);
    descriptors_close(&stream->file_fd);
    stream->fd = stream->file_fd = -1;
    stream->begun_us = 0;
    line_buffer_fini(&stream->buffer);
}

void output_destroy(struct output *output)
{
    if (output == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        struct sink *sink = &output->sinks[i];
        for (int rank = 0; sink->streams != NULL && rank < output->size; rank++)
            stream_close(&sink->streams[rank]);
        free(sink->streams);
        free(sink->tracebacks);
        lines_fini(&sink->lines);
        descriptors_close(&sink->epoll_fd);
    }
    free(output);
}

/* Make the pipe or pseudo-terminal of a rank: [0] is hvdrun's end. */
static int open_ends(struct sink *sink, int rank, int ends[2])
{
    const struct line_prefix *prefix = sink->lines.prefix;
    int prefix_columns = prefix == NULL ? 0 : (int)line_prefix_length(prefix, rank);
    if (sink->broken) /* a pipe without a reader raises SIGPIPE, as the ranks before this one got it */
        return pipe2(ends, O_CLOEXEC);
    if (sink->pty != OUTPUT_PTY_OFF && pseudo_terminal_open(ends, sink->fd, prefix_columns) == 0)
        return 0;
    if (sink->pty == OUTPUT_PTY_ON)
        return -1;
    sink->pty = OUTPUT_PTY_OFF;
    return pipe2(ends, O_CLOEXEC);
}

static int open_file(struct sink *sink, int rank)
{
    if (sink->options->directory == NULL)
        return 0;
    struct output_stream *stream = &sink->streams[rank];
    stream->file_fd = rank_file_open(sink->options->directory, rank,
                                     sink->fd == STDOUT_FILENO ? "out" : "err", stream->begun);
    return stream->file_fd < 0 ? -1 : 0;
}

/* The two ends have separate flags: hvdrun's end does not block, the rank's does. */
static int sink_add(struct sink *sink, int rank, int *write_fdp)
{
    int fds[2];
    if (open_ends(sink, rank, fds) < 0)
        return -1;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)rank};
    if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(sink->epoll_fd, EPOLL_CTL_ADD, fds[0], &event) < 0) {
        close(fds[0]);
        close(fds[1]);
        return -1;
    }
    sink->streams[rank].fd = fds[0];
    sink->streams[rank].begun = true;
    if (sink->tracebacks != NULL)
        sink->tracebacks[rank] = (struct traceback){.used = 0};
    if (sink->broken)
        stream_close(&sink->streams[rank]);
    *write_fdp = fds[1];
    return 0;
}

static size_t waiting_bytes(const struct sink *sink)
{
    return sink->lines.out.end - sink->lines.out.first;
}

static bool wants_more(const struct sink *sink)
{
    return !sink->broken && waiting_bytes(sink) < HIGH_WATER_BYTES;
}

static void close_streams(struct sink *sink, int size)
{
    for (int rank = 0; rank < size; rank++)
        stream_close(&sink->streams[rank]);
    sink->close_us = 0;
}

/* Close the ranks' pipes, so that they get EPIPE as if they had written to hvdrun's descriptor themselves. A
 * closed pseudo-terminal gives them EIO and no signal, so it stays open, unread, until the SIGPIPE that the
 * caller sends has come first. */
static void sink_break(struct sink *sink, int size, int error)
{
    sink->broken = true;
    sink->error = error == EPIPE ? 0 : error;
    sink->hung_up = error == EPIPE && (sink->pty != OUTPUT_PTY_OFF || sink->is_fed);
    if (sink->hung_up)
        sink->close_us = clock_us() + HANG_UP_US;
    else
        close_streams(sink, size);
    text_buffer_drop(&sink->lines.out, waiting_bytes(sink));
    sink->lines.open_rank = -1;
}

static void sink_write(struct sink *sink, int size)
{
    while (!sink->broken && waiting_bytes(sink) > 0) {
        struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
        size_t count = waiting_bytes(sink);
        if (!sink->is_file && poll(&ready, 1, 0) <= 0)
            return;
        if (!sink->is_file && count > WRITE_BYTES)
            count = WRITE_BYTES;
        ssize_t written = write(sink->fd, sink->lines.out.bytes + sink->lines.out.first, count);
        if (written < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (written < 0)
            sink_break(sink, size, errno);
        else
            text_buffer_drop(&sink->lines.out, (size_t)written);
    }
}

/* After an error the rank's file is closed. */
static void write_file(struct sink *sink, struct output_stream *stream, const char *bytes, size_t count)
{
    if (stream->file_fd < 0 || descriptors_write(stream->file_fd, bytes, count))
        return;
    sink->file_error = errno;
    close(stream->file_fd);
    stream->file_fd = -1;
}

/* What has come stands in the room of the stream's buffer. */
static void take_bytes(struct sink *sink, struct output_stream *stream, const char *bytes, size_t length)
{
    write_file(sink, stream, bytes, length);
    if (sink->tracebacks != NULL)
        traceback_feed(&sink->tracebacks[stream->buffer.rank], bytes, length);
    if (stream->hidden)
        return;
    bool passed = lines_feed(&sink->lines, &stream->buffer, length);
    if (stream->buffer.used == 0)
        stream->begun_us = 0;
    else if (passed || stream->begun_us == 0)
        stream->begun_us = clock_us();
}

static void stream_end(struct sink *sink, struct output_stream *stream)
{
    lines_end(&sink->lines, &stream->buffer);
    stream_close(stream);
}

/* Read once. Returns false at end of file, or if there is nothing to read. */
static bool stream_read(struct sink *sink, struct output_stream *stream)
{
    size_t room = 0;
    char *to = line_buffer_room(&stream->buffer, &room);
    if (to == NULL) {
        lines_flush(&sink->lines, &stream->buffer);
        return false;
    }
    ssize_t length = read(stream->fd, to, room);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (length <= 0) { /* a pseudo-terminal says EIO when its other end is closed */
        stream_end(sink, stream);
        return false;
    }
    take_bytes(sink, stream, to, (size_t)length);
    return true;
}

/* What the rank wrote before it was started again. Processes that it left may keep their end open. */
static void end_stream(struct sink *sink, int rank)
{
    struct output_stream *stream = &sink->streams[rank];
    while (stream->fd >= 0 && wants_more(sink) && stream_read(sink, stream))
        continue;
    if (stream->fd >= 0 || sink->is_fed)
        lines_end(&sink->lines, &stream->buffer);
    stream_close(stream);
}

static int begin_streams(struct output *output, int rank, struct hvd_error *err)
{
    end_stream(&output->sinks[0], rank);
    end_stream(&output->sinks[1], rank);
    if (open_file(&output->sinks[0], rank) < 0 || open_file(&output->sinks[1], rank) < 0)
        return error_set_errno(err, "--output-dir=%s: a file for rank %d cannot be made",
                               output->sinks[0].options->directory, rank);
    return HVD_OK;
}

int output_add(struct output *output, int rank, int write_fds[3], struct hvd_error *err)
{
    int rc = begin_streams(output, rank, err);
    if (rc != HVD_OK)
        return rc;
    if (sink_add(&output->sinks[0], rank, &write_fds[1]) < 0)
        return output->sinks[0].pty == OUTPUT_PTY_ON
                   ? error_set_errno(err, "cannot make the pseudo-terminal of rank %d (--pty=on)", rank)
                   : error_set_errno(err, "cannot make the pipes of rank %d", rank);
    if (sink_add(&output->sinks[1], rank, &write_fds[2]) < 0) {
        int status = error_set_errno(err, "cannot make the pipes of rank %d", rank);
        close(write_fds[1]);
        write_fds[1] = -1;
        return status;
    }
    return HVD_OK;
}

int output_expect(struct output *output, int rank, struct hvd_error *err)
{
    int rc = begin_streams(output, rank, err);
    for (int i = 0; i < 2; i++) {
        struct sink *sink = &output->sinks[i];
        sink->is_fed = true;
        sink->streams[rank].begun = true;
        if (sink->tracebacks != NULL)
            sink->tracebacks[rank] = (struct traceback){.used = 0};
    }
    return rc;
}

/* The time of day, for lines that begin now. */
static void stamp(struct sink *sink)
{
    struct timespec now;
    struct tm local;
    if (!sink->options->timestamps)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    size_t length = strftime(sink->lines.stamp, sizeof(sink->lines.stamp), "%H:%M:%S", &local);
    snprintf(sink->lines.stamp + length, sizeof(sink->lines.stamp) - length, ".%03u ",
             (unsigned int)(now.tv_nsec / 1000000) % 1000);
}

void output_feed(struct output *output, int rank, int which, const char *bytes, size_t length)
{
    struct sink *sink = &output->sinks[which];
    struct output_stream *stream = &sink->streams[rank];
    if (sink->broken)
        return;
    stamp(sink);
    if (length == 0)
        stream_end(sink, stream);
    while (length > 0) {
        size_t room = 0;
        char *to = line_buffer_room(&stream->buffer, &room);
        size_t part = length < room ? length : room;
        if (to == NULL) {
            lines_flush(&sink->lines, &stream->buffer);
            sink->lines.failed = true;
            return;
        }
        memcpy(to, bytes, part);
        take_bytes(sink, stream, to, part);
        bytes += part;
        length -= part;
    }
}

bool output_has_room(const struct output *output)
{
    for (int i = 0; i < 2; i++)
        if (!output->sinks[i].broken && !wants_more(&output->sinks[i]))
            return false;
    return true;
}

/* Read each ready stream once, so that all get their turn. */
static void sink_read(struct sink *sink)
{
    struct epoll_event events[EVENTS];
    stamp(sink);
    int count = epoll_wait(sink->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct output_stream *stream = &sink->streams[events[i].data.u32];
        if (stream->fd >= 0)
            stream_read(sink, stream);
    }
}

static int64_t patience_us(const struct sink *sink, const struct output_stream *stream)
{
    if (!stream->buffer.is_bar)
        return PATIENCE_US;
    return sink->lines.terminal ? BAR_TERMINAL_US : BAR_FILE_US;
}

/* Show lines that have been unfinished for long enough. Returns when the next one is due, or INT64_MAX. */
static int64_t sink_show_slow(struct sink *sink, int size, int64_t now_us)
{
    int64_t next_us = INT64_MAX;
    for (int rank = 0; rank < size; rank++) {
        struct output_stream *stream = &sink->streams[rank];
        if (stream->begun_us == 0 || sink->broken)
            continue;
        int64_t due_us = stream->begun_us + patience_us(sink, stream);
        if (due_us <= now_us) {
            lines_show(&sink->lines, &stream->buffer);
            stream->begun_us = 0;
        } else if (due_us < next_us) {
            next_us = due_us;
        }
    }
    return next_us;
}

void output_poll(struct output *output, struct pollfd fds[OUTPUT_POLLS], int *timeout_msp)
{
    int64_t next_us = INT64_MAX;
    for (int i = 0; i < 2; i++) {
        struct sink *sink = &output->sinks[i];
        int64_t now_us = clock_us();
        int64_t due_us = sink_show_slow(sink, output->size, now_us);
        if (sink->close_us != 0 && sink->close_us <= now_us)
            close_streams(sink, output->size);
        if (sink->close_us != 0)
            due_us = sink->close_us;
        next_us = due_us < next_us ? due_us : next_us;
        fds[2 * i] = (struct pollfd){.fd = wants_more(sink) ? sink->epoll_fd : -1, .events = POLLIN};
        fds[2 * i + 1] = (struct pollfd){.fd = waiting_bytes(sink) > 0 ? sink->fd : -1, .events = POLLOUT};
    }
    *timeout_msp = next_us == INT64_MAX ? -1 : clock_ms_until(next_us);
}

void output_work(struct output *output)
{
    for (int i = 0; i < 2; i++) {
        struct sink *sink = &output->sinks[i];
        if (wants_more(sink))
            sink_read(sink);
        sink_write(sink, output->size);
    }
}

/* A process that could not be killed may keep its pipe open. So read what is in the pipes now, and do not
 * wait for end of file. */
bool output_finish(struct output *output)
{
    bool finished = true;
    for (int i = 0; i < 2; i++) {
        struct sink *sink = &output->sinks[i];
        bool empty = true;
        if (sink->broken)
            continue;
        for (int rank = 0; rank < output->size; rank++) {
            struct output_stream *stream = &sink->streams[rank];
            while (stream->fd >= 0 && wants_more(sink) && stream_read(sink, stream))
                continue;
            if (stream->fd >= 0 && !wants_more(sink))
                empty = false;
            else if (stream->fd >= 0 || sink->is_fed)
                lines_end(&sink->lines, &stream->buffer);
        }
        sink_write(sink, output->size);
        finished = finished && empty && waiting_bytes(sink) == 0;
    }
    return finished;
}

const char *output_complaint(struct output *output)
{
    for (int i = 0; i < 2; i++) {
        struct sink *sink = &output->sinks[i];
        const char *name = i == 0 ? "stdout" : "stderr";
        if (sink->error != 0) {
            snprintf(output->complaint, sizeof(output->complaint), "cannot write to %s: %s", name,
                     error_text(sink->error));
            sink->error = 0;
            return output->complaint;
        }
        if (sink->file_error != 0) {
            snprintf(output->complaint, sizeof(output->complaint), "cannot write to a file in %.60s: %s",
                     sink->options->directory, error_text(sink->file_error));
            sink->file_error = 0;
            return output->complaint;
        }
        if (sink->lines.failed) {
            snprintf(output->complaint, sizeof(output->complaint),
                     "no memory for all output: part of what ranks wrote to %s is lost", name);
            sink->lines.failed = false;
            return output->complaint;
        }
    }
    return NULL;
}

bool output_take_hang_up(struct output *output)
{
    bool hung_up = output->sinks[0].hung_up;
    output->sinks[0].hung_up = false;
    return hung_up;
}

const char *output_exception(const struct output *output, int rank)
{
    const struct traceback *tracebacks = output->sinks[1].tracebacks;
    return tracebacks == NULL ? "" : tracebacks[rank].error;
}

bool output_mid_line(const struct output *output)
{
    return output->sinks[1].lines.open_rank >= 0;
}
