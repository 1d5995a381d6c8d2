/* doorbell.h: waking any rank of this node that sleeps, by a datagram to an address that it drew by lot.
 *
 * Relatives in the control tree have each other's wakeups. Backends wake whoever waits for them, and a
 * descriptor for each pair of ranks would be too many: all that is to be known of a doorbell is its name. */
#ifndef NODE_DOORBELL_H
#define NODE_DOORBELL_H

#include "base/status.h"

#define DOORBELL_NAME_BYTES 16

struct doorbell {
    int fd; /* readable: somebody knocked. -1: none */
    unsigned char name[DOORBELL_NAME_BYTES];
};

/* Others may knock from now on. [epoll_fd]: what this rank sleeps on, -1 for nothing; each knock at an open
 * doorbell that was cleared wakes it. */
int doorbell_open(struct doorbell *doorbell, int epoll_fd, struct hvd_error *err);

/* Wake who sleeps behind the doorbell called [name]. Never blocks. Where nobody lives there nothing happens.
 */
void doorbell_ring(const struct doorbell *own, const unsigned char name[DOORBELL_NAME_BYTES]);

/* Take the knocks that came. */
void doorbell_clear(const struct doorbell *doorbell);

/* Also in a forked child. A doorbell that is not open is fine. */
void doorbell_close(struct doorbell *doorbell);

#endif
