/* channel.c: frames over one connection between two ranks, or over rings in its place, and the bytes that
 * follow them. */
#include "p2p/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "net/seal.h"

#define FRAMES_AT_ONCE 32 /* that one call sends */

struct channel *channel_create(int rank, bool outgoing)
{
    struct channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        return NULL;
    channel->rank = rank;
    channel->outgoing = outgoing;
    channel->fd = -1;
    STAILQ_INIT(&channel->outs);
    TAILQ_INIT(&channel->offers);
    TAILQ_INIT(&channel->reads);
    return channel;
}

int channel_connect(struct channel *channel, int fd, struct seal *seal, int epoll_fd, struct hvd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = channel};
    channel->fd = fd;
    channel->seal = seal;
    channel->readable = channel->writable = true;
    connection_ends_of(&channel->ends, channel->rank, fd);
    if (!connection_wait_for_reader(fd))
        return error_set_errno(err, "messages: TCP_USER_TIMEOUT");
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return error_set_errno(err, "messages: epoll_ctl on a connection");
    return HVD_OK;
}

/* ---- Out ---- */

void channel_queue(struct channel *channel, struct p2p_out *out, const struct p2p_frame *frame,
                   const void *bytes, size_t length)
{
    p2p_frame_encode(out->header, frame);
    out->bytes = bytes;
    out->length = length;
    out->sent = 0;
    out->queued = true;
    STAILQ_INSERT_TAIL(&channel->outs, out, link);
}

int channel_queue_frame(struct channel *channel, const struct p2p_frame *frame, struct hvd_error *err)
{
    struct p2p_out *out = calloc(1, sizeof(*out));
    if (out == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to answer a message");
    out->owned = true;
    channel_queue(channel, out, frame, NULL, 0);
    return HVD_OK;
}

static size_t out_bytes(const struct p2p_out *out)
{
    return sizeof(out->header) + out->length;
}

/* What is left of [out]; returns how many parts that is. */
static int fill_parts(struct p2p_out *out, struct iovec parts[2])
{
    int count = 0;
    if (out->sent < sizeof(out->header))
        parts[count++] = (struct iovec){out->header + out->sent, sizeof(out->header) - out->sent};
    size_t bytes_sent = out->sent < sizeof(out->header) ? 0 : out->sent - sizeof(out->header);
    if (out->length > bytes_sent)
        parts[count++] =
            (struct iovec){(void *)(uintptr_t)(out->bytes + bytes_sent), out->length - bytes_sent};
    return count;
}

int channel_send(struct channel *channel, bool *movedp)
{
    struct iovec parts[2 * FRAMES_AT_ONCE];
    struct p2p_out *out;
    int count = 0;
    for (out = STAILQ_FIRST(&channel->outs); out != NULL; out = STAILQ_NEXT(out, link)) {
        count += fill_parts(out, parts + count);
        if (count > 2 * FRAMES_AT_ONCE - 2)
            break;
    }
    if (count == 0)
        return 0;
    ssize_t sent = channel_has_rings(channel) ? ring_pair_send(&channel->pair, parts, count)
                                              : seal_send(channel->seal, channel->fd, parts, count);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return -1;
    if (sent <= 0) {
        channel->writable = errno == EINTR;
        return 0;
    }
    *movedp = true;
    for (out = STAILQ_FIRST(&channel->outs); out != NULL; out = STAILQ_NEXT(out, link)) {
        size_t left = out_bytes(out) - out->sent;
        size_t of_this = (size_t)sent < left ? (size_t)sent : left;
        out->sent += of_this;
        sent -= (ssize_t)of_this;
        if (sent == 0)
            break;
    }
    return 0;
}

/* Returns its op, or NULL. */
static struct p2p_op *remove_first(struct channel *channel)
{
    struct p2p_out *out = STAILQ_FIRST(&channel->outs);
    struct p2p_op *op = out->op;
    STAILQ_REMOVE_HEAD(&channel->outs, link);
    out->queued = false;
    if (out->owned)
        free(out);
    return op;
}

struct p2p_op *channel_sent(struct channel *channel)
{
    struct p2p_op *op = NULL;
    while (op == NULL && !STAILQ_EMPTY(&channel->outs) &&
           STAILQ_FIRST(&channel->outs)->sent == out_bytes(STAILQ_FIRST(&channel->outs)))
        op = remove_first(channel);
    return op;
}

/* ---- In ---- */

/* Where to receive to: the payload's memory, and the free part of the buffer. */
static int fill_room(struct channel *channel, struct iovec parts[2])
{
    int count = 0;
    if (channel->begin == channel->end)
        channel->begin = channel->end = 0;
    if (channel->payload.active && channel->payload.to != NULL && channel->end == 0)
        parts[count++] = (struct iovec){channel->payload.to, (size_t)channel->payload.left};
    parts[count++] = (struct iovec){channel->buffer + channel->end, sizeof(channel->buffer) - channel->end};
    return count;
}

/* The socket of a channel with rings shows only its end. */
static ssize_t receive_end(struct channel *channel)
{
    char byte;
    const struct iovec part = {&byte, 1};
    ssize_t got = seal_receive(channel->seal, channel->fd, &part, 1);
    if (got <= 0)
        return got;
    errno = EPROTO;
    return -1;
}

static ssize_t receive(struct channel *channel, const struct iovec *parts, int count)
{
    if (!channel_has_rings(channel))
        return seal_receive(channel->seal, channel->fd, parts, count);
    ssize_t got = ring_pair_receive(&channel->pair, parts, count);
    return got < 0 && errno == EAGAIN && channel->readable ? receive_end(channel) : got;
}

int channel_receive(struct channel *channel, bool *movedp)
{
    struct iovec parts[2];
    int count = fill_room(channel, parts);
    ssize_t got = receive(channel, parts, count);
    if (got == 0) {
        errno = 0;
        return -1;
    }
    if (got < 0) {
        channel->readable = errno == EINTR;
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    *movedp = true;
    if (count == 2) {
        int64_t placed = got < channel->payload.left ? got : channel->payload.left;
        channel->payload.to += placed;
        channel->payload.left -= placed;
        got -= placed;
    }
    channel->end += (size_t)got;
    return 0;
}

bool channel_fill_payload(struct channel *channel)
{
    struct payload *payload = &channel->payload;
    size_t have = channel->end - channel->begin;
    size_t count = payload->left < (int64_t)have ? (size_t)payload->left : have;
    if (count > 0 && payload->to != NULL) {
        memcpy(payload->to, channel->buffer + channel->begin, count);
        payload->to += count;
    }
    payload->left -= (int64_t)count;
    channel->begin += count;
    return payload->left == 0;
}

const unsigned char *channel_next_header(struct channel *channel)
{
    size_t have = channel->end - channel->begin;
    if (have < P2P_FRAME_BYTES) {
        memmove(channel->buffer, channel->buffer + channel->begin, have);
        channel->begin = 0;
        channel->end = have;
        return NULL;
    }
    const unsigned char *header = channel->buffer + channel->begin;
    channel->begin += P2P_FRAME_BYTES;
    return header;
}

/* ---- The end ---- */

void channel_close(struct channel *channel, int epoll_fd)
{
    if (channel->fd >= 0) {
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, channel->fd, NULL);
        close(channel->fd);
    }
    channel->fd = -1;
    channel->readable = channel->writable = false;
    channel->pair.memory = NULL;
}

struct p2p_op *channel_drop(struct channel *channel)
{
    struct p2p_op *op = NULL;
    while (op == NULL && !STAILQ_EMPTY(&channel->outs))
        op = remove_first(channel);
    return op;
}

void channel_free(struct channel *channel)
{
    if (channel == NULL)
        return;
    establishment_end(channel->establishment);
    seal_free(channel->seal);
    free(channel);
}
