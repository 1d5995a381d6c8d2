/* byte_ring.h: a ring of bytes in memory that two processes share: one writes, one reads. */
#ifndef NODE_BYTE_RING_H
#define NODE_BYTE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cache_line.h"

#define RING_BYTES 65536 /* a power of two */

/* What is shared; zeroed memory is an empty ring. Positions count bytes from the start and never wrap. */
struct ring {
    /* the writer's line */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t head;
    _Atomic uint32_t closed;  /* nothing comes behind head */
    _Atomic uint32_t starved; /* the writer waits for room; the reader takes it back */
    /* the reader's line */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t tail;
    _Alignas(CACHE_LINE_BYTES) unsigned char data[RING_BYTES];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "atomics must work between processes");

/* One process's end, in its own memory. */
struct ring_end {
    struct ring *ring;
    uint64_t position; /* how far this end has written or read */
    uint64_t limit;    /* how far it may, as last seen */
};

/* Writer: copy what fits of [bytes]; the reader sees it after ring_publish. Returns how much was copied, or
 * -1 where the other end has spoilt the ring. */
ssize_t ring_put(struct ring_end *end, const void *bytes, size_t length);
void ring_publish(struct ring_end *end);

/* Writer: ask for news of room (what ring_release returns at the other end). Look for room once more
 * afterwards. */
void ring_starve(struct ring_end *end);

/* Writer: nothing more will come. */
void ring_close(struct ring_end *end);

/* Reader: copy out at most [length] bytes; the writer has room again after ring_release. Returns how many, or
 * -1 where the other end has spoilt the ring. */
ssize_t ring_take(struct ring_end *end, void *bytes, size_t length);

/* Reader: true when the writer asked for news of room. */
bool ring_release(struct ring_end *end);

/* Reader: all was taken and nothing more will come. */
bool ring_ended(struct ring_end *end);

#endif
