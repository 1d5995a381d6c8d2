/* stream.c: batches over two stream sockets, one to the next rank of the ring and one from the previous. */
#include "plane/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

#define SLICE_US 100

/* The chunk that goes out: its frame, then its bytes. */
struct outgoing {
    bool active;
    enum chain_kind kind;
    struct stream_frame frame;
    const char *bytes;
    size_t length; /* of the bytes */
    size_t sent;   /* of frame and bytes together */
};

/* The chunk that comes in: a frame until that is complete, then its bytes. */
struct incoming {
    struct stream_frame frame;
    size_t frame_have;
    bool placed; /* the frame was checked: [bytes] says where its chunk goes */
    enum chain_kind kind;
    char *bytes;
    size_t left;
};

struct stream {
    struct stream_link next, previous;
    int epoll_fd;
    struct chain chain;
    struct outgoing out;
    struct incoming in;
    int failed; /* the status of the error that ended it, or HVD_OK */
    int failed_rank;
    struct hvd_error failure;
};

static int watch(int epoll_fd, int fd, uint32_t events, struct hvd_error *err)
{
    struct epoll_event event = {.events = events | EPOLLRDHUP | EPOLLET};
    if (epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return error_set_errno(err, "plane tcp: epoll_ctl on a connection");
    return HVD_OK;
}

int stream_open(struct stream **streamp, const struct stream_seat *seat, struct hvd_error *err)
{
    int status = HVD_ERR_NO_MEMORY;
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        error_set_errno(err, "plane tcp: no memory for %zu bytes", sizeof(*stream));
        close(seat->next.fd);
        close(seat->previous.fd);
        return status;
    }
    stream->next = seat->next;
    stream->previous = seat->previous;
    stream->epoll_fd = seat->epoll_fd;
    status = chain_init(&stream->chain, seat->rank, seat->size, seat->chunk_bytes, 1, err);
    if (status < 0)
        goto fail;
    status = watch(seat->epoll_fd, seat->next.fd, EPOLLOUT, err);
    if (status < 0)
        goto fail;
    status = watch(seat->epoll_fd, seat->previous.fd, EPOLLIN, err);
    if (status < 0)
        goto fail;
    *streamp = stream;
    return HVD_OK;
fail:
    stream_close(stream);
    return status;
}

/* The connection with [link] is of no more use. errno says why; 0 is the end of the stream. */
static int lost(const struct stream *stream, const struct stream_link *link, struct hvd_error *err)
{
    const char *prefix = "plane tcp: the connection with";
    uint64_t sequence = stream->chain.batch.sequence;
    switch (errno) {
    case 0:
        return error_set(err, HVD_ERR_RANK_LOST,
                         "%s %s was closed in batch %" PRIu64 "; it has ended, look for its own last words",
                         prefix, link->name, sequence);
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
        error_set_errno(err, "%s %s broke in batch %" PRIu64, prefix, link->name, sequence);
        return HVD_ERR_RANK_LOST;
    default:
        return error_set_errno(err, "%s %s failed in batch %" PRIu64, prefix, link->name, sequence);
    }
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* Take the next chunk that may go out. False where there is none. */
static bool pick(struct stream *stream)
{
    struct chain *chain = &stream->chain;
    struct outgoing *out = &stream->out;
    struct chain_piece piece;
    enum chain_kind kind = chain_can_send(chain, CHAIN_RESULT) ? CHAIN_RESULT : CHAIN_PARTIAL;
    if (!chain_can_send(chain, kind))
        return false;
    const void *bytes = chain_send(chain, kind, &piece);
    *out = (struct outgoing){
        .active = true,
        .kind = kind,
        .frame = {STREAM_MAGIC, kind, chain->batch.sequence, (uint64_t)piece.chunk, piece.length},
        .bytes = bytes,
        .length = piece.length,
    };
    return true;
}

/* Send what the socket takes in one call. */
static int send_some(struct stream *stream, bool *movedp, struct hvd_error *err)
{
    struct outgoing *out = &stream->out;
    if (!out->active && !pick(stream))
        return HVD_OK;
    size_t frame_sent = out->sent < sizeof(out->frame) ? out->sent : sizeof(out->frame);
    size_t bytes_sent = out->sent - frame_sent;
    struct iovec parts[2] = {
        {(char *)&out->frame + frame_sent, sizeof(out->frame) - frame_sent},
        {(void *)(uintptr_t)(out->bytes + bytes_sent), out->length - bytes_sent},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent = sendmsg(stream->next.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
        bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        return later ? HVD_OK : lost(stream, &stream->next, err);
    }
    *movedp = true;
    out->sent += (size_t)sent;
    if (out->sent == sizeof(out->frame) + out->length) {
        out->active = false;
        chain_sent(&stream->chain, out->kind);
    }
    return HVD_OK;
}

/* Nothing ever comes from the next rank. While it must still take something from us it cannot have left in
 * peace, so an end of its stream is the loss of it; later it may close before us. */
static int check_next(const struct stream *stream, struct hvd_error *err)
{
    char byte;
    ssize_t got = recv(stream->next.fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return HVD_OK;
    if (got > 0)
        return error_set(err, HVD_ERR_MISMATCH,
                         "plane tcp: %s sent bytes against the ring's direction in batch %" PRIu64,
                         stream->next.name, stream->chain.batch.sequence);
    errno = got == 0 ? 0 : errno;
    return lost(stream, &stream->next, err);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static int refuse(const struct stream *stream, const char *what, uint64_t value, uint64_t expected,
                  struct hvd_error *err)
{
    return error_set(err, HVD_ERR_MISMATCH,
                     "plane tcp: %s sent %s %" PRIu64 " where %" PRIu64 " was due in batch %" PRIu64
                     "; do all ranks run the same hvd?",
                     stream->previous.name, what, value, expected, stream->chain.batch.sequence);
}

/* Check the frame that is complete against the batch that runs; only then ask where its chunk goes. */
static int place(struct stream *stream, struct hvd_error *err)
{
    struct incoming *in = &stream->in;
    const struct stream_frame *frame = &in->frame;
    struct chain *chain = &stream->chain;
    if (frame->magic != STREAM_MAGIC)
        return refuse(stream, "frame mark", frame->magic, STREAM_MAGIC, err);
    if (frame->sequence != chain->batch.sequence)
        return refuse(stream, "batch", frame->sequence, chain->batch.sequence, err);
    if (frame->kind >= CHAIN_KINDS || !chain_can_receive(chain, frame->kind))
        return error_set(err, HVD_ERR_MISMATCH,
                         "plane tcp: %s sent a chunk of kind %" PRIu32 " in batch %" PRIu64
                         " where that cannot be; do all ranks run the same hvd?",
                         stream->previous.name, frame->kind, chain->batch.sequence);
    struct chain_piece due;
    in->kind = frame->kind;
    in->bytes = chain_receive(chain, in->kind, &due);
    if (frame->chunk != (uint64_t)due.chunk)
        return refuse(stream, "chunk", frame->chunk, (uint64_t)due.chunk, err);
    if (frame->length != due.length)
        return refuse(stream, "a chunk of length", frame->length, due.length, err);
    in->left = due.length;
    in->placed = true;
    return HVD_OK;
}

/* Is another frame due behind the chunk that is coming in? What is behind the last one belongs to a later
 * batch and stays in the socket until that is started. */
static bool expects_another(const struct chain *chain)
{
    return chain->in[CHAIN_PARTIAL].begun < chain->in[CHAIN_PARTIAL].total ||
           chain->in[CHAIN_RESULT].begun < chain->in[CHAIN_RESULT].total;
}

/* Account for [got] bytes: first the chunk's, then the frame's behind it. */
static int take(struct stream *stream, size_t got, struct hvd_error *err)
{
    struct incoming *in = &stream->in;
    if (in->placed) {
        size_t bytes = got < in->left ? got : in->left;
        in->bytes += bytes;
        in->left -= bytes;
        got -= bytes;
        if (in->left > 0)
            return HVD_OK;
        in->placed = false;
        in->frame_have = 0;
        chain_received(&stream->chain, in->kind);
    }
    in->frame_have += got;
    return in->frame_have == sizeof(in->frame) ? place(stream, err) : HVD_OK;
}

/* Receive what the socket has, in one call: the rest of this chunk and the frame behind it, or the rest of a
 * frame. */
static int receive_some(struct stream *stream, bool *movedp, struct hvd_error *err)
{
    struct incoming *in = &stream->in;
    if (!chain_receives_left(&stream->chain))
        return HVD_OK;
    struct iovec parts[2];
    size_t part_count = 0;
    if (in->placed)
        parts[part_count++] = (struct iovec){in->bytes, in->left};
    if (!in->placed)
        parts[part_count++] =
            (struct iovec){(char *)&in->frame + in->frame_have, sizeof(in->frame) - in->frame_have};
    else if (expects_another(&stream->chain))
        parts[part_count++] = (struct iovec){&in->frame, sizeof(in->frame)};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = part_count};
    ssize_t got = recvmsg(stream->previous.fd, &message, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return HVD_OK;
    if (got <= 0) {
        errno = got == 0 ? 0 : errno;
        return lost(stream, &stream->previous, err);
    }
    *movedp = true;
    return take(stream, (size_t)got, err);
}

/* ---- Batches -------------------------------------------------------------------------------- */

static int repeat_failure(const struct stream *stream, struct hvd_error *err)
{
    return error_set(err, stream->failed, "%s", stream->failure.text);
}

int stream_start(struct stream *stream, const struct plane_batch *batch, struct hvd_error *err)
{
    if (stream->failed != HVD_OK)
        return repeat_failure(stream, err);
    chain_start(&stream->chain, batch);
    return HVD_OK;
}

/* Take turns until neither direction moves, the batch is done or the slice is over. */
static int progress(struct stream *stream, bool *movedp, int *rankp)
{
    int64_t end_us = clock_us() + SLICE_US;
    bool moved;
    do {
        moved = false;
        *rankp = stream->previous.rank;
        int status = receive_some(stream, &moved, &stream->failure);
        if (status < 0)
            return status;
        *rankp = stream->next.rank;
        status = send_some(stream, &moved, &stream->failure);
        if (status < 0)
            return status;
        *movedp = *movedp || moved;
        if (!chain_sends_left(&stream->chain) && !chain_receives_left(&stream->chain))
            return HVD_OK;
    } while (moved && clock_us() < end_us);
    if (!*movedp && chain_sends_left(&stream->chain)) {
        int status = check_next(stream, &stream->failure);
        if (status < 0)
            return status;
    }
    return HVD_IN_PROGRESS;
}

int stream_test(struct stream *stream, bool *movedp, int *rankp, struct hvd_error *err)
{
    int rank = -1;
    *movedp = false;
    if (stream->failed == HVD_OK) {
        int status = progress(stream, movedp, &rank);
        if (status >= 0)
            return status;
        stream->failed = status;
        stream->failed_rank = rank;
    }
    *rankp = stream->failed_rank;
    return repeat_failure(stream, err);
}

void stream_after_fork(struct stream *stream)
{
    close(stream->next.fd);
    close(stream->previous.fd);
}

void stream_close(struct stream *stream)
{
    if (stream == NULL)
        return;
    /* Taken out by name: a forked child's copies would keep them in. */
    if (stream->epoll_fd >= 0) {
        epoll_ctl(stream->epoll_fd, EPOLL_CTL_DEL, stream->next.fd, NULL);
        epoll_ctl(stream->epoll_fd, EPOLL_CTL_DEL, stream->previous.fd, NULL);
    }
    close(stream->next.fd);
    close(stream->previous.fd);
    chain_fini(&stream->chain);
    free(stream);
}
