/* doorbell.h: waking a rank of this node that sleeps.
 *
 * One rule holds for all who wake. A rank that is about to sleep sets an armed word in shared memory, looks
 * once more for what it waits for, and sleeps only if there is nothing. Another rank stores what it has for
 * it and then looks at the word. All these are seq_cst, so one of the two sees the other. Whoever finds the
 * word set takes it back and rings: once for each time that the rank went to sleep.
 *
 * There are two ways to ring. A neighbour in the control tree has the rank's eventfd, which was passed when
 * they attached, and writes to it: 1.2 us. A backend may have to wake any rank of the node, and a descriptor
 * for each pair of ranks would be too many: it sends a datagram to a socket with a random name: 4 us, on the
 * same machine. Any process of the network namespace that learns the name can send one too. That only wakes
 * the rank for nothing. */
#ifndef NODE_DOORBELL_H
#define NODE_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* After storing, in seq_cst order, what the sleeper waits for: must the caller ring? */
static inline bool doorbell_take(_Atomic uint32_t *armed)
{
    return atomic_load(armed) != 0 && atomic_exchange(armed, 0) != 0;
}

/* ---- By eventfd: neighbours in the control tree -------------------------------------------------- */

struct doorbell_eventfd {
    _Atomic uint32_t *armed;
    int fd; /* non-blocking */
};

void doorbell_ring_eventfd(const struct doorbell_eventfd *doorbell);

/* As doorbell_take asks for. Returns whether it rang. */
static inline bool doorbell_ring_if_armed(const struct doorbell_eventfd *doorbell)
{
    bool rings = doorbell_take(doorbell->armed);
    if (rings)
        doorbell_ring_eventfd(doorbell);
    return rings;
}

/* ---- By datagram: any rank of the node ----------------------------------------------------------- */

#define DOORBELL_NAME_BYTES 16

struct doorbell {
    int fd; /* readable: somebody rang. -1: none */
    unsigned char name[DOORBELL_NAME_BYTES];
};

/* From now on others can ring. [epoll_fd]: what this rank sleeps on, or -1; each ring that comes after
 * doorbell_clear wakes it. */
int doorbell_open(struct doorbell *doorbell, int epoll_fd, struct hvd_error *err);

/* Ring the doorbell called [name]. Never blocks. Nothing happens if there is none. */
void doorbell_ring(const struct doorbell *own, const unsigned char name[DOORBELL_NAME_BYTES]);

/* Remove the rings that came. The kernel keeps only a few of them, so do this before each sleep. */
void doorbell_clear(const struct doorbell *doorbell);

/* Also in a forked child. A doorbell that is not open is fine. */
void doorbell_close(struct doorbell *doorbell);

#endif
