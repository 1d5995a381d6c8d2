/* fragment.c: chunks of tensors over a stream socket, each behind a frame that says which one it is. */
#include "backend/tcp/fragment.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

void parcel_pack(struct parcel_out *out, uint32_t kind, uint64_t sequence, uint64_t chunk, const void *bytes,
                 size_t length)
{
    *out = (struct parcel_out){
        .active = true,
        .frame = {PARCEL_MAGIC, kind, sequence, chunk, length},
        .bytes = bytes,
    };
}

static bool is_for_later(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int parcel_send(struct parcel_out *out, int fd, bool *movedp)
{
    size_t frame_sent = out->sent < sizeof(out->frame) ? out->sent : sizeof(out->frame);
    size_t bytes_sent = out->sent - frame_sent;
    struct iovec parts[2] = {
        {(char *)&out->frame + frame_sent, sizeof(out->frame) - frame_sent},
        {(void *)(uintptr_t)(out->bytes + bytes_sent), out->frame.length - bytes_sent},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return is_for_later() ? 0 : -1;
    *movedp = true;
    out->sent += (size_t)sent;
    out->active = out->sent < sizeof(out->frame) + out->frame.length;
    return 0;
}

/* Receive into [parts], in one call. 0 where there is nothing yet; -1 as parcel_receive. */
static ssize_t receive(int fd, struct iovec *parts, size_t part_count, bool *movedp)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = part_count};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    if (got < 0)
        return is_for_later() ? 0 : -1;
    if (got == 0) {
        errno = 0;
        return -1;
    }
    *movedp = true;
    return got;
}

int parcel_receive(struct parcel_in *in, int fd, bool another, bool *movedp)
{
    struct iovec parts[2];
    size_t part_count = 0;
    if (in->placed)
        parts[part_count++] = (struct iovec){in->bytes, in->left};
    if (!in->placed || another)
        parts[part_count++] =
            (struct iovec){(char *)&in->frame + in->frame_have, sizeof(in->frame) - in->frame_have};
    ssize_t got = receive(fd, parts, part_count, movedp);
    if (got <= 0)
        return (int)got;
    size_t bytes = in->placed && (size_t)got > in->left ? in->left : (size_t)got;
    if (in->placed) {
        in->bytes += bytes;
        in->left -= bytes;
        in->frame_have = (size_t)got - bytes;
    } else {
        in->frame_have += (size_t)got;
    }
    return 0;
}

bool parcel_arrived(struct parcel_in *in)
{
    if (!in->placed || in->left > 0)
        return false;
    in->placed = false;
    return true;
}

bool parcel_is_framed(const struct parcel_in *in)
{
    return !in->placed && in->frame_have == sizeof(in->frame);
}

void parcel_place(struct parcel_in *in, void *bytes, size_t length)
{
    in->placed = true;
    in->bytes = bytes;
    in->left = length;
    in->frame_have = 0;
}

void parcel_expect(struct parcel_due *due, void *bytes, size_t length)
{
    *due = (struct parcel_due){.bytes = bytes, .length = length};
}

int parcel_receive_due(struct parcel_due *due, int fd, bool *movedp)
{
    size_t frame_have = due->have < sizeof(due->frame) ? due->have : sizeof(due->frame);
    size_t bytes_have = due->have - frame_have;
    struct iovec parts[2] = {
        {(char *)&due->frame + frame_have, sizeof(due->frame) - frame_have},
        {due->bytes + bytes_have, due->length - bytes_have},
    };
    ssize_t got = receive(fd, parts, 2, movedp);
    if (got > 0)
        due->have += (size_t)got;
    return got < 0 ? -1 : 0;
}

bool parcel_due_framed(const struct parcel_due *due)
{
    return due->have >= sizeof(due->frame);
}

bool parcel_due_arrived(const struct parcel_due *due)
{
    return due->have == sizeof(due->frame) + due->length;
}

static int refuse(const struct parcel_context *context, const char *what, uint64_t value, uint64_t expected,
                  struct hvd_error *err)
{
    return error_set(err, HVD_ERR_MISMATCH,
                     "plane tcp: %s sent %s %" PRIu64 " where %" PRIu64 " was due in batch %" PRIu64
                     "; do all ranks run the same hvd?",
                     context->peer, what, value, expected, context->sequence);
}

int parcel_check_batch(const struct parcel_frame *frame, const struct parcel_context *context,
                       struct hvd_error *err)
{
    if (frame->magic != PARCEL_MAGIC)
        return refuse(context, "frame mark", frame->magic, PARCEL_MAGIC, err);
    if (frame->sequence != context->sequence)
        return refuse(context, "batch", frame->sequence, context->sequence, err);
    return HVD_OK;
}

int parcel_check_chunk(const struct parcel_frame *frame, uint64_t chunk, uint64_t length,
                       const struct parcel_context *context, struct hvd_error *err)
{
    if (frame->chunk != chunk)
        return refuse(context, "chunk", frame->chunk, chunk, err);
    if (frame->length != length)
        return refuse(context, "a chunk of length", frame->length, length, err);
    return HVD_OK;
}

int parcel_refuse_kind(const struct parcel_frame *frame, const struct parcel_context *context,
                       struct hvd_error *err)
{
    return error_set(err, HVD_ERR_MISMATCH,
                     "plane tcp: %s sent a chunk of kind %" PRIu32 " in batch %" PRIu64
                     " where that cannot be; do all ranks run the same hvd?",
                     context->peer, frame->kind, context->sequence);
}

int parcel_lost(const struct parcel_context *context, struct hvd_error *err)
{
    const char *prefix = "plane tcp: the connection with";
    switch (errno) {
    case 0:
        return error_set(err, HVD_ERR_RANK_LOST,
                         "%s %s was closed in batch %" PRIu64 "; it has ended, look for its own last words",
                         prefix, context->peer, context->sequence);
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
        error_set_errno(err, "%s %s broke in batch %" PRIu64, prefix, context->peer, context->sequence);
        return HVD_ERR_RANK_LOST;
    default:
        return error_set_errno(err, "%s %s failed in batch %" PRIu64, prefix, context->peer,
                               context->sequence);
    }
}

int parcel_watch(int epoll_fd, int fd, uint32_t events, struct hvd_error *err)
{
    struct epoll_event event = {.events = events | EPOLLRDHUP | EPOLLET};
    if (epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return error_set_errno(err, "plane tcp: epoll_ctl on a connection");
    return HVD_OK;
}

void parcel_unwatch(int epoll_fd, int fd)
{
    if (epoll_fd >= 0)
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}
