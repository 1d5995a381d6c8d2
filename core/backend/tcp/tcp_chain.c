/* tcp_chain.c: batches over stream sockets, some to the next member of a team's ring and as many from the
 * previous. */
#include "backend/tcp/tcp_chain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* Chunks of the batch that runs, of both kinds, as they go one way: [0, done) are through, [done, begun) are
 * on their way, each on its lane. */
struct stream_side {
    int64_t begun, done;
};

struct stream {
    struct stream_link next, previous;
    int lanes;
    int epoll_fd;
    struct chain chain;
    struct stream_side out, in;
    struct parcel_out outs[STREAM_MAX_LANES];
    struct parcel_in ins[STREAM_MAX_LANES];
    enum chain_kind kinds[STREAM_MAX_LANES]; /* of the chunks that come in */
    int turn;                                /* the lane that comes first */
    int failed;                              /* the status of the error that ended it, or HVD_OK */
    int failed_rank;
    struct hvd_error failure;
};

static void close_fds(const struct stream_link *link, int lanes)
{
    for (int lane = 0; lane < lanes; lane++)
        close(link->fds[lane]);
}

static int watch(const struct stream *stream, struct hvd_error *err)
{
    int status = HVD_OK;
    for (int lane = 0; lane < stream->lanes && status == HVD_OK; lane++) {
        status = parcel_watch(stream->epoll_fd, stream->next.fds[lane], EPOLLOUT, err);
        if (status == HVD_OK)
            status = parcel_watch(stream->epoll_fd, stream->previous.fds[lane], EPOLLIN, err);
    }
    return status;
}

int stream_open(struct stream **streamp, const struct stream_seat *seat, struct hvd_error *err)
{
    int status = HVD_ERR_NO_MEMORY;
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        error_set_errno(err, "plane tcp: no memory for %zu bytes", sizeof(*stream));
        close_fds(&seat->next, seat->lanes);
        close_fds(&seat->previous, seat->lanes);
        return status;
    }
    stream->next = seat->next;
    stream->previous = seat->previous;
    stream->lanes = seat->lanes;
    stream->epoll_fd = seat->epoll_fd;
    status = chain_init(&stream->chain, seat->rank, seat->size, seat->chunk_bytes, seat->lanes, err);
    if (status == HVD_OK)
        status = watch(stream, err);
    if (status != HVD_OK) {
        stream_close(stream);
        return status;
    }
    *streamp = stream;
    return HVD_OK;
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

static int lane_of(const struct stream *stream, int64_t chunk)
{
    return (int)(chunk % stream->lanes);
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* Take the next chunk that may go out, where its lane is this one. */
static void pick(struct stream *stream, int lane)
{
    struct chain *chain = &stream->chain;
    struct chain_piece piece;
    bool taken = stream->out.begun - stream->out.done == stream->lanes;
    if (taken || lane_of(stream, stream->out.begun) != lane)
        return;
    enum chain_kind kind = chain_can_send(chain, CHAIN_RESULT) ? CHAIN_RESULT : CHAIN_PARTIAL;
    if (!chain_can_send(chain, kind))
        return;
    const void *bytes = chain_send(chain, kind, &piece);
    parcel_pack(&stream->outs[lane], kind, chain->batch.sequence, (uint64_t)piece.chunk, bytes, piece.length);
    stream->out.begun++;
}

static int send_some(struct stream *stream, int lane, bool *movedp, struct hvd_error *err)
{
    struct stream_side *side = &stream->out;
    struct parcel_out *out = &stream->outs[lane];
    if (!out->active)
        pick(stream, lane);
    if (!out->active)
        return HVD_OK;
    if (parcel_send(out, stream->next.fds[lane], movedp) < 0)
        return lost(stream, &stream->next, err);
    for (; side->done < side->begun && !stream->outs[lane_of(stream, side->done)].active; side->done++)
        chain_sent(&stream->chain, (enum chain_kind)stream->outs[lane_of(stream, side->done)].frame.kind);
    return HVD_OK;
}

/* Nothing ever comes from the next member. While it must still take something from us it cannot have left in
 * peace, so an end of a stream to it is the loss of it; later it may close before us. */
static int check_next(const struct stream *stream, int lane, struct hvd_error *err)
{
    char byte;
    ssize_t got = recv(stream->next.fds[lane], &byte, 1, MSG_DONTWAIT);
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
static int place(struct stream *stream, int lane, struct hvd_error *err)
{
    const struct parcel_frame *frame = &stream->ins[lane].frame;
    struct parcel_context context = context_of(stream, &stream->previous);
    struct chain *chain = &stream->chain;
    struct chain_piece due;
    int status = parcel_check_batch(frame, &context, err);
    if (status < 0)
        return status;
    if (frame->kind == CHAIN_PARTIAL && chain_must_wait(chain))
        return HVD_OK;
    if (frame->kind >= CHAIN_KINDS || !chain_can_receive(chain, (enum chain_kind)frame->kind))
        return parcel_refuse_kind(frame, &context, err);
    void *bytes = chain_receive(chain, (enum chain_kind)frame->kind, &due);
    status = parcel_check_chunk(frame, (uint64_t)due.chunk, due.length, &context, err);
    if (status < 0)
        return status;
    stream->kinds[lane] = (enum chain_kind)frame->kind;
    parcel_place(&stream->ins[lane], bytes, due.length);
    stream->in.begun++;
    return HVD_OK;
}

/* Place what has its turn. */
static int place_in_turn(struct stream *stream, bool *movedp, struct hvd_error *err)
{
    int status = HVD_OK;
    while (status == HVD_OK && stream->in.begun - stream->in.done < stream->lanes) {
        int64_t begun = stream->in.begun;
        int lane = lane_of(stream, begun);
        if (!parcel_is_framed(&stream->ins[lane]))
            break;
        status = place(stream, lane, err);
        if (stream->in.begun == begun)
            break;
        *movedp = true;
    }
    return status;
}

/* Is there a frame due on this lane that is not complete yet, behind the chunk that is coming in? */
static bool expects_frame(const struct stream *stream, int lane)
{
    const struct chain *chain = &stream->chain;
    int64_t total = chain->in[CHAIN_PARTIAL].total + chain->in[CHAIN_RESULT].total;
    int64_t begun = stream->in.begun;
    int ahead = lane - lane_of(stream, begun);
    return begun + (ahead < 0 ? ahead + stream->lanes : ahead) < total;
}

static int receive_some(struct stream *stream, int lane, bool *movedp, struct hvd_error *err)
{
    struct stream_side *side = &stream->in;
    struct parcel_in *in = &stream->ins[lane];
    bool another = expects_frame(stream, lane);
    bool waits = in->placed ? in->left == 0 : parcel_is_framed(in) || !another;
    if (waits)
        return HVD_OK;
    if (parcel_receive(in, stream->previous.fds[lane], another, movedp) < 0)
        return lost(stream, &stream->previous, err);
    for (; side->done < side->begun && parcel_arrived(&stream->ins[lane_of(stream, side->done)]);
         side->done++)
        chain_received(&stream->chain, stream->kinds[lane_of(stream, side->done)]);
    return HVD_OK;
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
    stream->out = stream->in = (struct stream_side){0, 0};
    stream->turn = 0;
    chain_start(&stream->chain, batch);
    return HVD_OK;
}

/* One lane, both ways. */
static int run_lane(struct stream *stream, int lane, bool *movedp, int *rankp)
{
    *rankp = stream->previous.rank;
    int status = receive_some(stream, lane, movedp, &stream->failure);
    if (status == HVD_OK)
        status = place_in_turn(stream, movedp, &stream->failure);
    if (status < 0)
        return status;
    *rankp = stream->next.rank;
    return send_some(stream, lane, movedp, &stream->failure);
}

/* Lanes take turns until none has moved in its last, the batch is done or the slice is over. */
static int progress(struct stream *stream, bool *movedp, int *rankp)
{
    int64_t end_us = clock_us() + PARCEL_SLICE_US;
    int idle = 0;
    while (idle < stream->lanes) {
        bool moved = false;
        int status = run_lane(stream, stream->turn, &moved, rankp);
        if (status < 0)
            return status;
        if (!chain_sends_left(&stream->chain) && !chain_receives_left(&stream->chain))
            return HVD_OK;
        stream->turn = (stream->turn + 1) % stream->lanes;
        idle = moved ? 0 : idle + 1;
        *movedp = *movedp || moved;
        if (moved && clock_us() >= end_us)
            break;
    }
    for (int lane = 0; !*movedp && lane < stream->lanes && chain_sends_left(&stream->chain); lane++) {
        int status = check_next(stream, lane, &stream->failure);
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
    close_fds(&stream->next, stream->lanes);
    close_fds(&stream->previous, stream->lanes);
}

void stream_close(struct stream *stream)
{
    if (stream == NULL)
        return;
    for (int lane = 0; lane < stream->lanes; lane++) {
        parcel_unwatch(stream->epoll_fd, stream->next.fds[lane]);
        parcel_unwatch(stream->epoll_fd, stream->previous.fds[lane]);
    }
    close_fds(&stream->next, stream->lanes);
    close_fds(&stream->previous, stream->lanes);
    chain_fini(&stream->chain);
    free(stream);
}
