/* env_fence_message.c: what the two ends of the env provider's fence say to each other. */
#include "pmix_shim/env_fence.h"

#include <endian.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

int message_send(struct channel *channel, const struct message *message, struct hvd_error *err)
{
    uint32_t head[MESSAGE_HEAD / 4] = {htole32(message->kind), htole32(message->number),
                                       htole32(message->rank)};
    unsigned char *bytes = malloc(MESSAGE_HEAD + message->length);
    if (bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    memcpy(bytes, head, MESSAGE_HEAD);
    if (message->length > 0)
        memcpy(bytes + MESSAGE_HEAD, message->bytes, message->length);
    int rc = channel_send(channel, bytes, MESSAGE_HEAD + message->length, err);
    free(bytes);
    return rc;
}

int message_receive(struct channel *channel, struct message *message, struct hvd_error *err)
{
    const unsigned char *bytes = NULL;
    uint32_t head[MESSAGE_HEAD / 4];
    size_t length = 0;
    int rc = channel_receive(channel, &bytes, &length, err);
    if (rc != HVD_OK)
        return rc;
    if (length < MESSAGE_HEAD)
        return error_set(err, HVD_ERR_INVALID, "it sent a message of %zu bytes; expected at least %d", length,
                         MESSAGE_HEAD);
    memcpy(head, bytes, MESSAGE_HEAD);
    *message = (struct message){le32toh(head[0]), le32toh(head[1]), le32toh(head[2]), bytes + MESSAGE_HEAD,
                                length - MESSAGE_HEAD};
    return HVD_OK;
}

void wait_for(int fd, short events, int64_t deadline_us)
{
    struct pollfd poller = {.fd = fd, .events = events};
    poll(&poller, 1, clock_ms_until(deadline_us));
}
