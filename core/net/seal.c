/* seal.c: what a connection between two ranks carries, sealed. */
#include "net/seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "auth/record.h"

#define WHOLE_BYTES (SEAL_RECORD_BYTES + RECORD_EXTRA_BYTES) /* the longest record */

/* The record that is being sent. It counts as sent when its last byte has been. */
struct seal_out {
    struct record_key key;
    size_t contents;     /* bytes in it; 0: there is none */
    size_t length, sent; /* of the record */
    unsigned char bytes[WHOLE_BYTES];
};

/* What has come: opened contents that the caller has not taken, then the next record as far as it is here. */
struct seal_in {
    struct record_key key;
    size_t opened_at, opened_end; /* contents of the record before [start] */
    size_t start, end;            /* bytes of the next record */
    unsigned char bytes[WHOLE_BYTES + RECORD_HEAD_BYTES];
};

struct seal {
    struct seal_out out;
    struct seal_in in;
};

struct seal *seal_create(const struct handshake *handshake)
{
    struct seal *seal = malloc(sizeof(*seal));
    if (seal == NULL)
        return NULL;
    seal->out.contents = seal->out.length = seal->out.sent = 0;
    seal->in.opened_at = seal->in.opened_end = seal->in.start = seal->in.end = 0;
    if (record_keys(handshake, &seal->out.key, &seal->in.key, NULL) == HVD_OK)
        return seal;
    free(seal);
    return NULL;
}

void seal_free(struct seal *seal)
{
    if (seal == NULL)
        return;
    record_keys_wipe(&seal->out.key, &seal->in.key);
    free(seal);
}

/* ---- Sending ---- */

static size_t total_of(const struct iovec *parts, int part_count)
{
    size_t total = 0;
    for (int i = 0; i < part_count; i++)
        total += parts[i].iov_len;
    return total;
}

/* Copy at most [room] bytes of the parts. Returns how many. */
static size_t gather(const struct iovec *parts, int part_count, unsigned char *to, size_t room)
{
    size_t copied = 0;
    for (int i = 0; i < part_count && copied < room; i++) {
        size_t length = parts[i].iov_len < room - copied ? parts[i].iov_len : room - copied;
        if (length > 0)
            memcpy(to + copied, parts[i].iov_base, length);
        copied += length;
    }
    return copied;
}

/* The parts' first byte, and in *lengthp how many follow it in one piece. */
static unsigned char *first_piece(const struct iovec *parts, int part_count, size_t *lengthp)
{
    int first = 0;
    while (first < part_count - 1 && parts[first].iov_len == 0)
        first++;
    *lengthp = parts[first].iov_len;
    return parts[first].iov_base;
}

/* Make the next record of what the parts hold. A long piece is encrypted from where it lies. False with errno
 * if it cannot be encrypted. */
static bool make_record(struct seal_out *out, const struct iovec *parts, int part_count)
{
    unsigned char *contents = out->bytes + RECORD_HEAD_BYTES;
    size_t length = 0;
    const unsigned char *from = first_piece(parts, part_count, &length);
    out->contents = SEAL_RECORD_BYTES;
    if (length < SEAL_RECORD_BYTES) {
        out->contents = gather(parts, part_count, contents, SEAL_RECORD_BYTES);
        from = contents;
    }
    out->length = out->contents + RECORD_EXTRA_BYTES;
    out->sent = 0;
    if (out->contents == 0 || record_seal(&out->key, out->bytes, from, out->contents))
        return true;
    out->contents = 0;
    errno = EIO;
    return false;
}

/* At most one record is sent in one call, so that the caller gets other work done between two. */
ssize_t seal_send(struct seal *seal, int fd, const struct iovec *parts, int part_count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)part_count};
    if (seal == NULL)
        return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    struct seal_out *out = &seal->out;
    if (out->contents == 0 && !make_record(out, parts, part_count))
        return -1;
    if (out->contents > total_of(parts, part_count)) {
        errno = EINVAL; /* the caller has taken back bytes that it had offered */
        return -1;
    }
    while (out->sent < out->length && out->contents > 0) {
        ssize_t sent = send(fd, out->bytes + out->sent, out->length - out->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -1;
        out->sent += (size_t)sent;
    }
    size_t contents = out->contents;
    out->contents = 0;
    return (ssize_t)contents;
}

/* ---- Receiving ---- */

/* Hand over what was opened, as far as the parts have room. */
static size_t scatter(struct seal_in *in, const struct iovec *parts, int part_count)
{
    size_t taken = 0;
    for (int i = 0; i < part_count; i++) {
        size_t length = in->opened_end - in->opened_at;
        if (length > parts[i].iov_len)
            length = parts[i].iov_len;
        if (length > 0)
            memcpy(parts[i].iov_base, in->bytes + in->opened_at, length);
        in->opened_at += length;
        taken += length;
    }
    return taken;
}

/* The length of the whole next record, 0 if its head has not come; or -1 if it is of no record. */
static ssize_t record_length(const struct seal_in *in)
{
    if (in->end - in->start < RECORD_HEAD_BYTES)
        return 0;
    uint64_t contents = record_announces(in->bytes + in->start);
    if (contents == 0 || contents > SEAL_RECORD_BYTES)
        return -1;
    return (ssize_t)(contents + RECORD_EXTRA_BYTES);
}

bool seal_has_bytes(const struct seal *seal)
{
    const struct seal_in *in = seal != NULL ? &seal->in : NULL;
    if (in == NULL || in->opened_at < in->opened_end)
        return in != NULL;
    ssize_t length = record_length(in);
    return length < 0 || (length > 0 && in->end - in->start >= (size_t)length);
}

/* Read more of the next record, which has [length] bytes, and the head of the one after it; of a record whose
 * length is not known yet, as much as there is room for. Returns as recv. */
static ssize_t read_more(struct seal_in *in, int fd, size_t length)
{
    if (in->start > 0) {
        memmove(in->bytes, in->bytes + in->start, in->end - in->start);
        in->end -= in->start;
        in->start = in->opened_at = in->opened_end = 0;
    }
    size_t want = (length == 0 ? WHOLE_BYTES : length) + RECORD_HEAD_BYTES - in->end;
    ssize_t got = 0;
    do
        got = recv(fd, in->bytes + in->end, want, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    in->end += got > 0 ? (size_t)got : 0;
    return got;
}

/* Open the record at [start], [length] bytes long, into the first part if it fits there, else in its place.
 * Returns how many bytes the first part got, or -1 with EBADMSG. */
static ssize_t open_record(struct seal_in *in, size_t length, const struct iovec *parts, int part_count)
{
    size_t contents_length = length - RECORD_EXTRA_BYTES, room = 0;
    unsigned char *record = in->bytes + in->start;
    unsigned char *piece = first_piece(parts, part_count, &room);
    bool fits = room >= contents_length;
    if (!record_open(&in->key, record, fits ? piece : record + RECORD_HEAD_BYTES, contents_length)) {
        errno = EBADMSG;
        return -1;
    }
    in->opened_at = in->opened_end = in->start + RECORD_HEAD_BYTES;
    in->opened_end += fits ? 0 : contents_length;
    in->start += length;
    return fits ? (ssize_t)contents_length : 0;
}

ssize_t seal_receive(struct seal *seal, int fd, const struct iovec *parts, int part_count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)part_count};
    if (seal == NULL)
        return recvmsg(fd, &message, MSG_DONTWAIT);
    struct seal_in *in = &seal->in;
    while (in->opened_at == in->opened_end) {
        ssize_t length = record_length(in);
        if (length < 0) {
            errno = EBADMSG;
            return -1;
        }
        if (length > 0 && in->end - in->start >= (size_t)length) {
            ssize_t opened = open_record(in, (size_t)length, parts, part_count);
            if (opened != 0)
                return opened;
            continue;
        }
        ssize_t got = read_more(in, fd, (size_t)length);
        if (got <= 0)
            return got;
    }
    return (ssize_t)scatter(in, parts, part_count);
}
