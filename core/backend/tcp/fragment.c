/* fragment.c: fragments: chunks of tensors over a stream socket, each behind a header that identifies it. */
#include "backend/tcp/fragment.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

void fragment_pack(struct fragment_out *out, uint32_t kind, uint64_t sequence, uint64_t chunk,
                   const void *bytes, size_t length)
{
    *out = (struct fragment_out){
        .active = true,
        .header = {FRAGMENT_MAGIC, kind, sequence, chunk, length},
        .bytes = bytes,
    };
}

static bool is_transient(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int fragment_send(struct fragment_out *out, int fd, struct seal *seal, bool *movedp)
{
    size_t header_sent = out->sent < sizeof(out->header) ? out->sent : sizeof(out->header);
    size_t bytes_sent = out->sent - header_sent;
    struct iovec parts[2] = {
        {(char *)&out->header + header_sent, sizeof(out->header) - header_sent},
        {(void *)(uintptr_t)(out->bytes + bytes_sent), out->header.length - bytes_sent},
    };
    ssize_t sent = seal_send(seal, fd, parts, 2);
    if (sent < 0)
        return is_transient() ? 0 : -1;
    *movedp = true;
    out->sent += (size_t)sent;
    out->active = out->sent < sizeof(out->header) + out->header.length;
    return 0;
}

/* Receive into [parts], in one call. 0 if nothing has come; -1 as fragment_receive. */
static ssize_t receive(int fd, struct seal *seal, const struct iovec *parts, int part_count, bool *movedp)
{
    ssize_t got = seal_receive(seal, fd, parts, part_count);
    if (got < 0)
        return is_transient() ? 0 : -1;
    if (got == 0) {
        errno = 0;
        return -1;
    }
    *movedp = true;
    return got;
}

int fragment_receive(struct fragment_in *in, int fd, struct seal *seal, bool another, bool *movedp)
{
    struct iovec parts[2];
    int part_count = 0;
    if (in->placed)
        parts[part_count++] = (struct iovec){in->bytes, in->left};
    if (!in->placed || another)
        parts[part_count++] =
            (struct iovec){(char *)&in->header + in->header_have, sizeof(in->header) - in->header_have};
    ssize_t got = receive(fd, seal, parts, part_count, movedp);
    if (got <= 0)
        return (int)got;
    size_t bytes = in->placed && (size_t)got > in->left ? in->left : (size_t)got;
    if (in->placed) {
        in->bytes += bytes;
        in->left -= bytes;
        in->header_have = (size_t)got - bytes;
    } else {
        in->header_have += (size_t)got;
    }
    return 0;
}

bool fragment_arrived(struct fragment_in *in)
{
    if (!in->placed || in->left > 0)
        return false;
    in->placed = false;
    return true;
}

bool fragment_has_header(const struct fragment_in *in)
{
    return !in->placed && in->header_have == sizeof(in->header);
}

void fragment_set_memory(struct fragment_in *in, void *bytes, size_t length)
{
    in->placed = true;
    in->bytes = bytes;
    in->left = length;
    in->header_have = 0;
}

void fragment_expect(struct fragment_expected *expected, void *bytes, size_t length)
{
    *expected = (struct fragment_expected){.bytes = bytes, .length = length};
}

int fragment_receive_expected(struct fragment_expected *expected, int fd, struct seal *seal, bool *movedp)
{
    size_t header_have =
        expected->have < sizeof(expected->header) ? expected->have : sizeof(expected->header);
    size_t bytes_have = expected->have - header_have;
    struct iovec parts[2] = {
        {(char *)&expected->header + header_have, sizeof(expected->header) - header_have},
        {expected->bytes + bytes_have, expected->length - bytes_have},
    };
    ssize_t got = receive(fd, seal, parts, 2, movedp);
    if (got > 0)
        expected->have += (size_t)got;
    return got < 0 ? -1 : 0;
}

bool fragment_expected_has_header(const struct fragment_expected *expected)
{
    return expected->have >= sizeof(expected->header);
}

bool fragment_expected_arrived(const struct fragment_expected *expected)
{
    return expected->have == sizeof(expected->header) + expected->length;
}

static int refuse_header(const struct fragment_context *context, const char *what, uint64_t value,
                         uint64_t expected, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_MISMATCH,
                     "backend tcp: %s sent %s %" PRIu64 " where %" PRIu64 " was due in batch %" PRIu64
                     "; do all ranks run the same hvd?",
                     context->peer, what, value, expected, context->sequence);
}

int fragment_check_batch(const struct fragment_header *header, const struct fragment_context *context,
                         struct hvd_error *err)
{
    if (header->magic != FRAGMENT_MAGIC)
        return refuse_header(context, "header mark", header->magic, FRAGMENT_MAGIC, err);
    if (header->sequence != context->sequence)
        return refuse_header(context, "batch", header->sequence, context->sequence, err);
    return HVD_OK;
}

int fragment_check_chunk(const struct fragment_header *header, uint64_t chunk, uint64_t length,
                         const struct fragment_context *context, struct hvd_error *err)
{
    if (header->chunk != chunk)
        return refuse_header(context, "chunk", header->chunk, chunk, err);
    if (header->length != length)
        return refuse_header(context, "a chunk of length", header->length, length, err);
    return HVD_OK;
}

int fragment_check(const struct fragment_header *header, uint32_t kind, uint64_t chunk, uint64_t length,
                   const struct fragment_context *context, struct hvd_error *err)
{
    int status = fragment_check_batch(header, context, err);
    if (status < 0)
        return status;
    if (header->kind != kind)
        return fragment_refuse_kind(header, context, err);
    return fragment_check_chunk(header, chunk, length, context, err);
}

int fragment_refuse_kind(const struct fragment_header *header, const struct fragment_context *context,
                         struct hvd_error *err)
{
    return error_set(err, HVD_ERR_MISMATCH,
                     "backend tcp: %s sent a chunk of kind %" PRIu32 " in batch %" PRIu64
                     " that must not come there; do all ranks run the same hvd?",
                     context->peer, header->kind, context->sequence);
}

int fragment_lost(const struct fragment_context *context, int fd, struct hvd_error *err)
{
    int error = errno;
    char ends[CONNECTION_ENDS_BYTES], cause[CONNECTION_CAUSE_BYTES];
    snprintf(ends, sizeof(ends), "this rank with %s", context->peer);
    if (context->watch != NULL)
        tcp_watch_ends_text(context->watch, fd, ends);
    connection_cause_text(error, context->watch == NULL ? 0 : context->watch->peer_table->lease_us, cause);
    return error_set(err, connection_is_loss(error) ? HVD_ERR_RANK_LOST : HVD_ERR_SYSTEM,
                     "backend tcp: in batch %" PRIu64 " the connection of %s %s", context->sequence, ends,
                     cause);
}

int fragment_watch(int epoll_fd, int fd, uint32_t events, struct hvd_error *err)
{
    struct epoll_event event = {.events = events | EPOLLRDHUP | EPOLLET};
    if (epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return error_set_errno(err, "backend tcp: epoll_ctl on a connection");
    return HVD_OK;
}

void fragment_unwatch(int epoll_fd, int fd)
{
    if (epoll_fd >= 0)
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}
