/* secure_channel.c: sealed (encrypted and authenticated) frames over one TCP connection of the env
 * provider. */
#include "pmix_shim/secure_channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptors.h"

int secure_channel_open(struct secure_channel *channel, struct handshake *handshake, struct hvd_error *err)
{
    *channel = (struct secure_channel){.fd = -1};
    int rc = record_keys(handshake, &channel->send_key, &channel->receive_key, err);
    if (rc != HVD_OK)
        return rc;
    channel->fd = handshake->fd;
    handshake->fd = -1;
    return HVD_OK;
}

void secure_channel_close(struct secure_channel *channel)
{
    descriptors_close(&channel->fd);
    free(channel->out.bytes);
    free(channel->frame);
    record_keys_wipe(&channel->send_key, &channel->receive_key);
    *channel = (struct secure_channel){.fd = -1};
}

/* Read until the frame has [length] bytes. */
static int fill(struct secure_channel *channel, size_t length, struct hvd_error *err)
{
    while (channel->frame_length < length) {
        ssize_t got = recv(channel->fd, channel->frame + channel->frame_length,
                           length - channel->frame_length, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HVD_IN_PROGRESS;
        if (got < 0)
            return error_set_errno(err, "receiving");
        if (got == 0)
            return error_set(err, HVD_ERR_RANK_LOST, "it closed the connection");
        channel->frame_length += (size_t)got;
    }
    return HVD_OK;
}

int secure_channel_flush(struct secure_channel *channel, struct hvd_error *err)
{
    struct send_buffer *out = &channel->out;
    while (out->sent < out->length) {
        ssize_t put =
            send(channel->fd, out->bytes + out->sent, out->length - out->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HVD_IN_PROGRESS;
        if (put < 0)
            return error_set_errno(err, "sending");
        out->sent += (size_t)put;
    }
    out->length = 0;
    out->sent = 0;
    return HVD_OK;
}

/* Make room for [more] bytes at the end of the queue; NULL if memory is out. */
static unsigned char *extend(struct send_buffer *out, size_t more)
{
    unsigned char *bytes = realloc(out->bytes, out->length + more);
    if (bytes == NULL)
        return NULL;
    out->bytes = bytes;
    return bytes + out->length;
}

int secure_channel_send(struct secure_channel *channel, const void *message, size_t length,
                        struct hvd_error *err)
{
    if (length > SECURE_CHANNEL_MESSAGE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "wire-up: a message of %zu bytes; expected at most %d", length,
                         SECURE_CHANNEL_MESSAGE_BYTES);
    unsigned char *to = extend(&channel->out, length + RECORD_EXTRA_BYTES);
    if (to == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    if (!record_seal(&channel->send_key, to, message, length))
        return error_set(err, HVD_ERR_SYSTEM, "libcrypto cannot encrypt a message of %zu bytes", length);
    channel->out.length += length + RECORD_EXTRA_BYTES;
    int rc = secure_channel_flush(channel, err);
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* Make the frame's memory at least [want] bytes long. */
static int reserve_buffer(struct secure_channel *channel, size_t want, struct hvd_error *err)
{
    if (channel->frame_room >= want)
        return HVD_OK;
    unsigned char *frame = realloc(channel->frame, want);
    if (frame == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    channel->frame = frame;
    channel->frame_room = want;
    return HVD_OK;
}

int secure_channel_receive(struct secure_channel *channel, const unsigned char **messagep, size_t *lengthp,
                           struct hvd_error *err)
{
    int rc = reserve_buffer(channel, RECORD_HEAD_BYTES, err);
    if (rc == HVD_OK)
        rc = fill(channel, RECORD_HEAD_BYTES, err);
    if (rc != HVD_OK)
        return rc;
    size_t length = (size_t)record_announces(channel->frame);
    if (length > SECURE_CHANNEL_MESSAGE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "it announces a message of %zu bytes; expected at most %d",
                         length, SECURE_CHANNEL_MESSAGE_BYTES);
    size_t whole = length + RECORD_EXTRA_BYTES;
    rc = reserve_buffer(channel, whole, err);
    if (rc == HVD_OK)
        rc = fill(channel, whole, err);
    if (rc != HVD_OK)
        return rc;
    unsigned char *message = channel->frame + RECORD_HEAD_BYTES;
    if (!record_open(&channel->receive_key, channel->frame, message, length))
        return error_set(err, HVD_ERR_INVALID, "it sent a message that is not sealed with this job's key");
    channel->frame_length = 0;
    *messagep = message;
    *lengthp = length;
    return HVD_OK;
}
