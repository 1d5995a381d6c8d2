/* byte_ring.h: a ring of bytes in memory that two processes share: one writes, one reads. */
#ifndef NODE_BYTE_RING_H
#define NODE_BYTE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cpu.h"

#define BYTE_RING_BYTES 65536 /* a power of two */

/* What is shared; zeroed memory is an empty ring. Positions count bytes from the start and never wrap. */
struct byte_ring {
    /* the writer's line */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t head;
    _Atomic uint32_t closed;       /* nothing comes behind head */
    _Atomic uint32_t writer_waits; /* the writer waits for room; the reader takes it back */
    /* the reader's line */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t tail;
    _Alignas(CACHE_LINE_BYTES) unsigned char data[BYTE_RING_BYTES];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "atomics must work between processes");

/* One process's end, in its own memory. */
struct byte_ring_end {
    struct byte_ring *ring;
    uint64_t position; /* how far this end has written or read */
    uint64_t limit;    /* how far it may, as last seen */
};

/* Writer: copy what fits of [bytes]; the reader sees it after byte_ring_commit. Returns how much was copied,
 * or -1 where the other end has spoilt the ring. */
ssize_t byte_ring_write(struct byte_ring_end *end, const void *bytes, size_t length);
void byte_ring_commit(struct byte_ring_end *end);

/* Writer: ask for news of room (what byte_ring_release returns at the other end). Look for room once more
 * afterwards. */
void byte_ring_request_room(struct byte_ring_end *end);

/* Writer: nothing more will come. */
void byte_ring_close(struct byte_ring_end *end);

/* Reader: copy out at most [length] bytes; the writer has room again after byte_ring_release. Returns how
 * many, or -1 where the other end has spoilt the ring. */
ssize_t byte_ring_read(struct byte_ring_end *end, void *bytes, size_t length);

/* Reader: true when the writer asked for news of room. */
bool byte_ring_release(struct byte_ring_end *end);

/* Reader: all was taken and nothing more will come. */
bool byte_ring_at_end(struct byte_ring_end *end);

#endif
