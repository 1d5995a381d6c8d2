/* event_channel.h: events from PMIx's thread, in the server's process, to hvdrun's main loop: one datagram
 * each. */
#ifndef PMIX_SHIM_EVENT_CHANNEL_H
#define PMIX_SHIM_EVENT_CHANNEL_H

#include "pmix_shim/server.h"

/* The server's end. */
struct event_channel {
    int fd;
};

/* Call it on any thread. When it returns 0, hvdrun will receive this event before any later one. Returns
 * -1 if hvdrun has ended. */
int event_channel_post(const struct event_channel *channel, const struct server_event *event);

/* hvdrun's end: returns 1 with the next event, 0 if there is none yet, and -1 if the server has ended. */
int event_channel_receive(int fd, struct server_event *event);

#endif
