/* wakeup.h: waking a process that sleeps: its eventfd, written only where its shared word says that it
 * sleeps.
 */
#ifndef NODE_WAKEUP_H
#define NODE_WAKEUP_H

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

struct wakeup {
    _Atomic uint32_t *armed;
    int fd;
};

static inline void wakeup_signal(const struct wakeup *wakeup)
{
    /* Non-blocking: it fails only where it already rings. */
    uint64_t one = 1;
    ssize_t ignored = write(wakeup->fd, &one, sizeof(one));
    (void)ignored;
}

/* After what there is to see was stored in sequentially consistent order. */
static inline void wakeup_signal_if_armed(const struct wakeup *wakeup)
{
    if (atomic_load(wakeup->armed) != 0 && atomic_exchange(wakeup->armed, 0) != 0)
        wakeup_signal(wakeup);
}

#endif
