/* channel.h: what PMIx's thread tells the main loop. Only channel_post may be called on PMIx's thread. */
#ifndef SHIM_CHANNEL_H
#define SHIM_CHANNEL_H

#include <stdbool.h>

#include "base/status.h"

enum channel_kind { CHANNEL_CONNECTED, CHANNEL_FINALIZED, CHANNEL_ABORT };

struct channel_message {
    enum channel_kind kind;
    int rank;
    int status;                          /* ABORT: what the rank asked for */
    char text[256];                      /* ABORT: what it said, or "" */
    void (*done)(int status, void *arg); /* ABORT: lets the rank go on, which waits for it; or NULL */
    void *done_arg;
};

struct channel;

int channel_create(struct channel **channelp, struct hvd_error *err);

/* Copy [message] into the queue and make channel_fd readable. Any thread. -1 where memory ran out. */
int channel_post(struct channel *channel, const struct channel_message *message);

/* Readable while there are messages. */
int channel_fd(const struct channel *channel);

/* Take the oldest message; false where there is none. */
bool channel_take(struct channel *channel, struct channel_message *message);

/* No thread may post any more. NULL is fine. */
void channel_destroy(struct channel *channel);

#endif
