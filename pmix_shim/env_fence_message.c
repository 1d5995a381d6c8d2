/* env_fence_message.c: the messages between the two ends of the env provider's fence. */
#include "pmix_shim/env_fence.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/codec.h"

int fence_message_send(struct secure_channel *channel, const struct fence_message *message,
                       struct hvd_error *err)
{
    size_t length = FENCE_HEAD_BYTES + message->length;
    unsigned char *bytes = malloc(length);
    if (bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    struct encoder encoder = {bytes, length, false};
    encode_number(&encoder, message->kind, 4);
    encode_number(&encoder, message->number, 4);
    encode_number(&encoder, message->rank, 4);
    encode_raw(&encoder, message->bytes, message->length);
    int rc = secure_channel_send(channel, bytes, length, err);
    free(bytes);
    return rc;
}

int fence_message_receive(struct secure_channel *channel, struct fence_message *message,
                          struct hvd_error *err)
{
    const unsigned char *bytes = NULL;
    size_t length = 0;
    int rc = secure_channel_receive(channel, &bytes, &length, err);
    if (rc != HVD_OK)
        return rc;
    struct decoder decoder = {bytes, length, false};
    message->kind = (uint32_t)decode_number(&decoder, 4);
    message->number = (uint32_t)decode_number(&decoder, 4);
    message->rank = (uint32_t)decode_number(&decoder, 4);
    message->bytes = decoder.at;
    message->length = decoder.left;
    if (decoder.failed)
        return error_set(err, HVD_ERR_INVALID, "it sent a message of %zu bytes; expected at least %d", length,
                         FENCE_HEAD_BYTES);
    return HVD_OK;
}

/* ---- A place in an epoch ------------------------------------------------------------------------ */

struct fence_message fence_place_encode(const struct fence_place *place, uint32_t epoch,
                                        unsigned char bytes[FENCE_PLACE_BYTES])
{
    struct encoder encoder = {bytes, FENCE_PLACE_BYTES, false};
    encode_number(&encoder, (uint64_t)place->size, 4);
    encode_number(&encoder, place->port, 2);
    encode_text(&encoder, place->host, sizeof(place->host));
    return (struct fence_message){FENCE_EPOCH, epoch, (uint32_t)place->rank, bytes,
                                  FENCE_PLACE_BYTES - encoder.left};
}

int fence_place_decode(struct fence_place *place, const struct fence_message *message, int most,
                       struct hvd_error *err)
{
    struct decoder decoder = {message->bytes, message->length, false};
    struct fence_place read = {.rank = (int)message->rank};
    read.size = (int)decode_number(&decoder, 4);
    read.port = (uint16_t)decode_number(&decoder, 2);
    decode_text(&decoder, read.host, sizeof(read.host));
    if (decoder.failed || decoder.left > 0 || read.size < 1 || read.size > most || read.rank < 0 ||
        read.rank >= read.size || strspn(read.host, "0123456789.:abcdef") != strlen(read.host))
        return error_set(err, HVD_ERR_MISMATCH, "the launcher gave a place that no job has: rank %d of %d",
                         read.rank, read.size);
    *place = read;
    return HVD_OK;
}

size_t fence_silent_encode(int rank, unsigned char bytes[FENCE_SILENT_BYTES])
{
    struct encoder encoder = {bytes, FENCE_SILENT_BYTES, false};
    encode_number(&encoder, (uint64_t)rank, 4);
    return FENCE_SILENT_BYTES;
}

int fence_silent_decode(const struct fence_message *message, int size)
{
    struct decoder decoder = {message->bytes, message->length, false};
    uint64_t rank = decode_number(&decoder, 4);
    return decoder.failed || decoder.left > 0 || rank >= (uint64_t)size ? -1 : (int)rank;
}

/* ---- Failures ----------------------------------------------------------------------------------- */

int fence_failure_status(const struct handshake *handshake)
{
    if (handshake->foreign)
        return HVD_ERR_INVALID;
    return handshake->error != 0 ? HVD_ERR_SYSTEM : HVD_ERR_RANK_LOST;
}
