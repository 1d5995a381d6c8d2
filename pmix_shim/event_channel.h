/* event_channel.h: events from PMIx's thread to hvdrun's main loop: one datagram each. */
#ifndef PMIX_SHIM_EVENT_CHANNEL_H
#define PMIX_SHIM_EVENT_CHANNEL_H

#include "pmix_shim/server.h"

/* The server's end. */
struct event_channel {
    int fd;
};

/* Any thread. When it returns 0, hvdrun will see this event before any later one. -1 where hvdrun is gone. */
int event_channel_post(const struct event_channel *channel, const struct server_event *event);

/* hvdrun's end: 1 with the next event; 0 where there is none yet; -1 where the server is gone. */
int event_channel_receive(int fd, struct server_event *event);

#endif
