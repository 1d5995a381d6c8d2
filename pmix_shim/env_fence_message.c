/* env_fence_message.c: what the two ends of the env provider's fence say to each other. */
#include "pmix_shim/env_fence.h"

#include <endian.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

int fence_message_send(struct secure_channel *channel, const struct fence_message *message,
                       struct hvd_error *err)
{
    uint32_t head[FENCE_HEAD_BYTES / 4] = {htole32(message->kind), htole32(message->number),
                                           htole32(message->rank)};
    unsigned char *bytes = malloc(FENCE_HEAD_BYTES + message->length);
    if (bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    memcpy(bytes, head, FENCE_HEAD_BYTES);
    if (message->length > 0)
        memcpy(bytes + FENCE_HEAD_BYTES, message->bytes, message->length);
    int rc = secure_channel_send(channel, bytes, FENCE_HEAD_BYTES + message->length, err);
    free(bytes);
    return rc;
}

int fence_message_receive(struct secure_channel *channel, struct fence_message *message,
                          struct hvd_error *err)
{
    const unsigned char *bytes = NULL;
    uint32_t head[FENCE_HEAD_BYTES / 4];
    size_t length = 0;
    int rc = secure_channel_receive(channel, &bytes, &length, err);
    if (rc != HVD_OK)
        return rc;
    if (length < FENCE_HEAD_BYTES)
        return error_set(err, HVD_ERR_INVALID, "it sent a message of %zu bytes; expected at least %d", length,
                         FENCE_HEAD_BYTES);
    memcpy(head, bytes, FENCE_HEAD_BYTES);
    *message = (struct fence_message){le32toh(head[0]), le32toh(head[1]), le32toh(head[2]),
                                      bytes + FENCE_HEAD_BYTES, length - FENCE_HEAD_BYTES};
    return HVD_OK;
}

void poll_until(int fd, short events, int64_t deadline_us)
{
    struct pollfd poller = {.fd = fd, .events = events};
    poll(&poller, 1, clock_ms_until(deadline_us));
}
