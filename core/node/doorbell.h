/* doorbell.h: waking any rank of this node that sleeps, by a datagram to an address that it drew by lot.
 *
 * Relatives in the control tree have each other's bells. Planes wake whoever waits for them, and a descriptor
 * for each pair of ranks would be too many: all that is to be known of a door is its name. */
#ifndef NODE_DOORBELL_H
#define NODE_DOORBELL_H

#include "base/status.h"

#define DOOR_NAME_BYTES 16

struct door {
    int fd; /* readable: somebody knocked. -1: none */
    unsigned char name[DOOR_NAME_BYTES];
};

/* Others may knock from now on. [epoll_fd]: what this rank sleeps on, -1 for nothing; each knock at an open
 * door that was cleared wakes it. */
int door_open(struct door *door, int epoll_fd, struct hvd_error *err);

/* Wake who sleeps behind the door called [name]. Never blocks. Where nobody lives there nothing happens. */
void door_knock(const struct door *own, const unsigned char name[DOOR_NAME_BYTES]);

/* Take the knocks that came. */
void door_clear(const struct door *door);

/* Also in a forked child. A door that is not open is fine. */
void door_close(struct door *door);

#endif
