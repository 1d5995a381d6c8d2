/* event_channel.c: sends events as datagrams from the PMIx server's process to hvdrun. */
#include "pmix_shim/event_channel.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/packet.h"

int event_channel_post(const struct event_channel *channel, const struct server_event *event)
{
    ssize_t sent = 0;
    do
        sent = send(channel->fd, event, sizeof(*event), MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

int event_channel_receive(int fd, struct server_event *event)
{
    ssize_t length = packet_read(fd, event, sizeof(*event));
    if (length == (ssize_t)sizeof(*event))
        return 1;
    return length < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}
