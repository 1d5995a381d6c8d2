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
    _Atomic uint32_t closed;       /* the writer writes nothing more behind head */
    _Atomic uint32_t writer_waits; /* the writer waits for room; the reader clears it */
    /* the reader's line */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t tail;
    _Alignas(CACHE_LINE_BYTES) unsigned char data[BYTE_RING_BYTES];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "atomics must work between processes");

/* One end of the ring, in the memory of its process. */
struct byte_ring_end {
    struct byte_ring *ring;
    uint64_t position; /* how far this end has written or read */
    uint64_t limit;    /* how far it may go, as last seen */
};

/* Writer: copy as many of the [length] bytes as there is room for; the reader sees them after
 * byte_ring_commit. Returns how many were copied, or -1 if the other end wrote an impossible position. */
ssize_t byte_ring_write(struct byte_ring_end *end, const void *bytes, size_t length);
void byte_ring_commit(struct byte_ring_end *end);

/* Writer: ask to be told when there is room; byte_ring_release returns that at the other end. Afterwards try
 * to write once more, because there may be room already. */
void byte_ring_request_room(struct byte_ring_end *end);

/* Writer: nothing more will be written. */
void byte_ring_close(struct byte_ring_end *end);

/* Reader: copy out at most [length] bytes; the writer gets their room after byte_ring_release. Returns how
 * many were copied, or -1 if the other end wrote an impossible position. */
ssize_t byte_ring_read(struct byte_ring_end *end, void *bytes, size_t length);

/* Reader: has everything been read that was written so far? */
bool byte_ring_is_empty(const struct byte_ring_end *end);

/* Reader: give the room of what was read to the writer. True if the writer asked to be told. */
bool byte_ring_release(struct byte_ring_end *end);

/* Reader: has everything been read, and will nothing more come? */
bool byte_ring_at_end(struct byte_ring_end *end);

#endif
