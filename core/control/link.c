/* link.c: frames to and from one neighbour in the control tree, over rings in shared memory or a socket. */
#include "config.h"
#include "control/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/descriptors.h"

#define BUFFER_FIRST_BYTES 4096
#define BUFFER_KEEP_BYTES  (1 << 20) /* larger buffers are freed when they become empty */

static size_t buffer_used(const struct link_buffer *buffer)
{
    return buffer->end - buffer->start;
}

static void buffer_free(struct link_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct link_buffer){0};
}

static void buffer_drop(struct link_buffer *buffer, size_t count)
{
    buffer->start += count;
    if (buffer->start < buffer->end)
        return;
    buffer->start = buffer->end = 0;
    if (buffer->capacity > BUFFER_KEEP_BYTES)
        buffer_free(buffer);
}

/* Make room for [count] bytes behind the end: move the contents to the front, then grow if needed. */
static bool buffer_reserve(struct link_buffer *buffer, size_t count)
{
    if (buffer->capacity - buffer->end >= count)
        return true;
    size_t used = buffer_used(buffer);
    if (buffer->start > 0) {
        memmove(buffer->bytes, buffer->bytes + buffer->start, used);
        buffer->start = 0;
        buffer->end = used;
    }
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : BUFFER_FIRST_BYTES;
    while (capacity - used < count)
        capacity *= 2;
    if (capacity == buffer->capacity)
        return true;
    unsigned char *bytes = realloc(buffer->bytes, capacity);
    if (bytes == NULL)
        return false;
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return true;
}

static void buffer_append(struct link_buffer *buffer, const void *bytes, size_t count)
{
    if (count == 0)
        return;
    memcpy(buffer->bytes + buffer->end, bytes, count);
    buffer->end += count;
}

void link_init(struct link *link)
{
    *link = (struct link){.rank = -1, .fd = -1};
}

void link_open_rings(struct link *link, int rank, struct byte_ring *out, struct byte_ring *in,
                     struct doorbell_eventfd doorbell)
{
    link_init(link);
    link->rank = rank;
    link->out.ring = out;
    link->in.ring = in;
    link->doorbell = doorbell;
    link->open = true;
}

void link_open_socket(struct link *link, int rank, int fd)
{
    link_init(link);
    link->rank = rank;
    link->fd = fd;
    link->open = true;
}

static void ring_if_armed(struct link *link)
{
    link->has_rung |= doorbell_ring_if_armed(&link->doorbell);
}

/* The other end has something to look at. */
static void ring(struct link *link)
{
    if (!link->defers_rings)
        ring_if_armed(link);
    else if (link->polls_to_ring == 0 && atomic_load(link->doorbell.armed) != 0)
        link->polls_to_ring = LINK_POLLS_TO_RING;
}

void link_defer_rings(struct link *link, bool defers)
{
    if (!link->open || link->fd >= 0)
        return;
    link->defers_rings = defers;
    if (defers || link->polls_to_ring == 0)
        return;
    link->polls_to_ring = 0;
    ring_if_armed(link);
}

/* If the word is not set, the other end is awake, and looks once more before it sleeps. */
void link_poll_ring(struct link *link)
{
    if (link->polls_to_ring == 0)
        return;
    if (atomic_load(link->doorbell.armed) == 0)
        link->polls_to_ring = 0;
    else if (--link->polls_to_ring == 0)
        ring_if_armed(link);
}

bool link_has_rung(struct link *link)
{
    bool has_rung = link->has_rung;
    link->has_rung = false;
    return has_rung;
}

/* Write as much of the parts as fits into the ring. Returns the number of bytes, or -1. */
static ssize_t link_write_ring(struct link *link, const struct iovec *parts, int part_count)
{
    size_t total = 0;
    for (int i = 0; i < part_count; i++) {
        ssize_t count = byte_ring_write(&link->out, parts[i].iov_base, parts[i].iov_len);
        if (count < 0) {
            link->corrupt = true;
            return -1;
        }
        total += (size_t)count;
        if ((size_t)count < parts[i].iov_len)
            break;
    }
    if (total > 0) {
        byte_ring_commit(&link->out);
        ring(link);
    }
    return (ssize_t)total;
}

/* The same for the socket. */
static ssize_t link_write_socket(struct link *link, const struct iovec *parts, int part_count)
{
    ssize_t count = seal_send(link->seal, link->fd, parts, part_count);
    if (count >= 0)
        return count;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    /* Frames that the other end sent before are still to be read; after them link_next reports the end. */
    link->cause = errno;
    return -1;
}

/* Write what fits now. If the other end is gone everything is dropped and counts as written. */
static size_t link_write(struct link *link, const struct iovec *parts, int part_count)
{
    size_t total = 0;
    for (int i = 0; i < part_count; i++)
        total += parts[i].iov_len;
    if (!link->open || link->send_broken)
        return total;
    ssize_t count =
        link->fd >= 0 ? link_write_socket(link, parts, part_count) : link_write_ring(link, parts, part_count);
    if (count >= 0)
        return (size_t)count;
    link->send_broken = true;
    return total;
}

int link_send(struct link *link, enum frame_type type, uint32_t epoch, const void *payload, size_t length,
              struct hvd_error *err)
{
    unsigned char header[FRAME_HEADER_BYTES];
    frame_encode(header, type, epoch, length);
    struct iovec parts[2] = {{header, sizeof(header)}, {(void *)payload, length}};
    size_t written = 0;
    /* Reserve memory first, so that a frame is sent whole or not at all. For small ones the buffer has room
     * already. */
    if (!buffer_reserve(&link->unsent, sizeof(header) + length))
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for a message of %zu bytes to rank %d",
                         length, link->rank);
    if (link_flushed(link))
        written = link_write(link, parts, length > 0 ? 2 : 1);
    size_t header_written = written < sizeof(header) ? written : sizeof(header);
    buffer_append(&link->unsent, header + header_written, sizeof(header) - header_written);
    size_t payload_written = written - header_written;
    if (payload_written < length)
        buffer_append(&link->unsent, (const unsigned char *)payload + payload_written,
                      length - payload_written);
    buffer_drop(&link->unsent, 0);
    link_flush(link);
    if (type != FRAME_MESSAGE)
        link_defer_rings(link, false);
    return HVD_OK;
}

void link_flush(struct link *link)
{
    bool requested = false;
    while (!link_flushed(link)) {
        struct iovec rest = {link->unsent.bytes + link->unsent.start, buffer_used(&link->unsent)};
        size_t written = link_write(link, &rest, 1);
        buffer_drop(&link->unsent, written);
        if (written > 0)
            continue;
        if (link->fd >= 0 || requested)
            break;
        byte_ring_request_room(&link->out);
        requested = true;
    }
}

bool link_flushed(const struct link *link)
{
    return buffer_used(&link->unsent) == 0;
}

/* Read into the room behind [received]. 0: no bytes now. -1: no more will come, see cause. */
static ssize_t link_read(struct link *link)
{
    struct link_buffer *received = &link->received;
    void *to = received->bytes + received->end;
    size_t room = received->capacity - received->end;
    if (link->fd >= 0) {
        const struct iovec part = {to, room};
        ssize_t count = seal_receive(link->seal, link->fd, &part, 1);
        if (count > 0)
            return count;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return 0;
        if (count < 0)
            link->cause = errno;
        return -1;
    }
    ssize_t count = byte_ring_read(&link->in, to, room);
    if (count < 0)
        link->corrupt = true;
    if (count > 0 && byte_ring_release(&link->in))
        doorbell_ring_if_armed(&link->doorbell);
    return count == 0 && byte_ring_at_end(&link->in) ? -1 : count;
}

/* Make room in [received], and read into it. */
static enum link_event link_fill(struct link *link, struct hvd_error *err)
{
    struct link_buffer *received = &link->received;
    /* The buffer grows with what arrives, and not by what a header announces. */
    if (!buffer_reserve(received, 1)) {
        error_set(err, HVD_ERR_NO_MEMORY, "out of memory for a message of more than %zu bytes from rank %d",
                  buffer_used(received), link->rank);
        return LINK_FAILED;
    }
    ssize_t count = link_read(link);
    if (link->corrupt) {
        error_set(err, HVD_ERR_SYSTEM, "impossible positions in their shared ring");
        return LINK_CORRUPT;
    }
    if (count < 0)
        return LINK_ENDED;
    received->end += (size_t)count;
    return count > 0 ? LINK_FRAME : LINK_NOTHING;
}

enum link_event link_next(struct link *link, unsigned allowed, struct frame *frame, struct hvd_error *err)
{
    enum link_event event = link->open ? LINK_FRAME : LINK_NOTHING;
    struct link_buffer *received = &link->received;
    while (event == LINK_FRAME) {
        int status = HVD_IN_PROGRESS;
        if (buffer_used(received) >= FRAME_HEADER_BYTES)
            status =
                frame_decode(received->bytes + received->start, buffer_used(received), allowed, frame, err);
        if (status == HVD_OK) {
            link->in_use = FRAME_HEADER_BYTES + frame->length;
            return LINK_FRAME;
        }
        event = status == HVD_IN_PROGRESS ? link_fill(link, err) : LINK_CORRUPT;
    }
    return event;
}

void link_release(struct link *link)
{
    buffer_drop(&link->received, link->in_use);
    link->in_use = 0;
}

bool link_has_partial_frame(const struct link *link)
{
    return buffer_used(&link->received) > 0;
}

/* Closing a socket with unread bytes resets its connection, and the other end loses what it has not read yet.
 */
static void socket_drain(int fd)
{
    char sink[4096];
    ssize_t count;
    int rounds = 64;
    shutdown(fd, SHUT_WR);
    do
        count = recv(fd, sink, sizeof(sink), MSG_DONTWAIT);
    while (count > 0 && --rounds > 0);
}

void link_close(struct link *link)
{
    if (link->open && link->fd >= 0)
        socket_drain(link->fd);
    if (link->open && link->fd < 0) {
        byte_ring_close(&link->out);
        doorbell_ring_if_armed(&link->doorbell);
    }
    buffer_free(&link->unsent);
    buffer_free(&link->received);
    seal_free(link->seal);
    link_after_fork(link);
}

void link_after_fork(struct link *link)
{
    int fd = link->fd;
    link_init(link);
    descriptors_close(&fd);
}
