/* stream.c: batches over two stream sockets, one to the next member of a team's ring and one from the
 * previous.
 */
#include "plane/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define SLICE_US 100

struct stream {
    struct stream_link next, previous;
    int epoll_fd;
    struct chain chain;
    struct parcel_out out;
    struct parcel_in in;
    enum chain_kind kind; /* of the chunk that comes in */
    int failed;           /* the status of the error that ended it, or HVD_OK */
    int failed_rank;
    struct hvd_error failure;
};

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
    status = parcel_watch(seat->epoll_fd, seat->next.fd, EPOLLOUT, err);
    if (status < 0)
        goto fail;
    status = parcel_watch(seat->epoll_fd, seat->previous.fd, EPOLLIN, err);
    if (status < 0)
        goto fail;
    *streamp = stream;
    return HVD_OK;
fail:
    stream_close(stream);
    return status;
}

static struct parcel_context context_of(const struct stream *stream, const struct stream_link *link)
{
    return (struct parcel_context){link->name, stream->chain.batch.sequence};
}

static int lost(const struct stream *stream, const struct stream_link *link, struct hvd_error *err)
{
    struct parcel_context context = context_of(stream, link);
    return parcel_lost(&context, err);
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* Take the next chunk that may go out. False where there is none. */
static bool pick(struct stream *stream)
{
    struct chain *chain = &stream->chain;
    struct chain_piece piece;
    enum chain_kind kind = chain_can_send(chain, CHAIN_RESULT) ? CHAIN_RESULT : CHAIN_PARTIAL;
    if (!chain_can_send(chain, kind))
        return false;
    const void *bytes = chain_send(chain, kind, &piece);
    parcel_pack(&stream->out, kind, chain->batch.sequence, (uint64_t)piece.chunk, bytes, piece.length);
    return true;
}

static int send_some(struct stream *stream, bool *movedp, struct hvd_error *err)
{
    struct parcel_out *out = &stream->out;
    if (!out->active && !pick(stream))
        return HVD_OK;
    if (parcel_send(out, stream->next.fd, movedp) < 0)
        return lost(stream, &stream->next, err);
    if (!out->active)
        chain_sent(&stream->chain, (enum chain_kind)out->frame.kind);
    return HVD_OK;
}

/* Nothing ever comes from the next member. While it must still take something from us it cannot have left in
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

/* Check the frame that is complete against the batch that runs; only then ask where its chunk goes. A partial
 * may have to wait until one of ours has left. */
static int place(struct stream *stream, struct hvd_error *err)
{
    const struct parcel_frame *frame = &stream->in.frame;
    struct parcel_context context = context_of(stream, &stream->previous);
    struct chain *chain = &stream->chain;
    struct chain_piece due;
    int status = parcel_check_batch(frame, &context, err);
    if (status < 0)
        return status;
    if (frame->kind == CHAIN_PARTIAL && chain_lacks_slot(chain))
        return HVD_OK;
    if (frame->kind >= CHAIN_KINDS || !chain_can_receive(chain, (enum chain_kind)frame->kind))
        return parcel_refuse_kind(frame, &context, err);
    void *bytes = chain_receive(chain, (enum chain_kind)frame->kind, &due);
    status = parcel_check_chunk(frame, (uint64_t)due.chunk, due.length, &context, err);
    if (status < 0)
        return status;
    stream->kind = (enum chain_kind)frame->kind;
    parcel_place(&stream->in, bytes, due.length);
    return HVD_OK;
}

/* Is another frame due behind the chunk that is coming in? */
static bool expects_another(const struct chain *chain)
{
    return chain->in[CHAIN_PARTIAL].begun < chain->in[CHAIN_PARTIAL].total ||
           chain->in[CHAIN_RESULT].begun < chain->in[CHAIN_RESULT].total;
}

static int receive_some(struct stream *stream, bool *movedp, struct hvd_error *err)
{
    struct parcel_in *in = &stream->in;
    int status = HVD_OK;
    if (!chain_receives_left(&stream->chain))
        return HVD_OK;
    if (parcel_is_framed(in))
        status = place(stream, err);
    if (status < 0 || parcel_is_framed(in))
        return status;
    if (parcel_receive(in, stream->previous.fd, expects_another(&stream->chain), movedp) < 0)
        return lost(stream, &stream->previous, err);
    if (parcel_arrived(in))
        chain_received(&stream->chain, stream->kind);
    return parcel_is_framed(in) ? place(stream, err) : HVD_OK;
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
    parcel_unwatch(stream->epoll_fd, stream->next.fd);
    parcel_unwatch(stream->epoll_fd, stream->previous.fd);
    close(stream->next.fd);
    close(stream->previous.fd);
    chain_fini(&stream->chain);
    free(stream);
}
