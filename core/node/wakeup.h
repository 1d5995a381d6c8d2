/* wakeup.h: waking a process that sleeps: its eventfd, written only where its shared word says that it
 * sleeps.
 */
#ifndef NODE_WAKEUP_H
#define NODE_WAKEUP_H

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

struct bell {
    _Atomic uint32_t *armed;
    int fd;
};

static inline void bell_write(const struct bell *bell)
{
    /* Non-blocking: it fails only where it already rings. */
    uint64_t one = 1;
    ssize_t ignored = write(bell->fd, &one, sizeof(one));
    (void)ignored;
}

/* After what there is to see was stored in sequentially consistent order. */
static inline void bell_ring(const struct bell *bell)
{
    if (atomic_load(bell->armed) != 0 && atomic_exchange(bell->armed, 0) != 0)
        bell_write(bell);
}

#endif
