/* byte_ring.h: a ring of bytes in memory that two processes share: one writes, one reads.
 *
 * The writer commits bytes. Each commit has an entry, whose stamp says which commit it is and how many bytes
 * it has. A short one has its bytes beside the stamp, so that bytes and news travel from core to core in one
 * cache line; those of a long one lie in a place of their own, which is copied in one go. */
#ifndef NODE_BYTE_RING_H
#define NODE_BYTE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cpu.h"

#define BYTE_RING_BYTES       65536                                     /* of long commits; a power of two */
#define BYTE_RING_ENTRIES     256                                       /* a power of two */
#define BYTE_RING_SHORT_BYTES (2 * CACHE_LINE_BYTES - sizeof(uint64_t)) /* a longer commit is a long one */

struct byte_ring_entry {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t stamp; /* written after the bytes */
    unsigned char bytes[BYTE_RING_SHORT_BYTES];
};

/* What is shared; zeroed memory is an empty ring. Entries, and bytes of long commits, are counted from the
 * start and never wrap. */
struct byte_ring {
    /* the writer's line */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t closed; /* the writer writes nothing more */
    _Atomic uint32_t writer_waits;                      /* for room; the reader clears it */
    /* the reader's line: how much it has done with; byte_tail is stored first */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t byte_tail;
    _Atomic uint64_t entry_tail;
    struct byte_ring_entry entries[BYTE_RING_ENTRIES];
    _Alignas(CACHE_LINE_BYTES) unsigned char data[BYTE_RING_BYTES];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "atomics must work between processes");

/* Make a ring of memory that may hold anything. */
void byte_ring_reset(struct byte_ring *ring);

/* One end of the ring, in the memory of its process. */
struct byte_ring_end {
    struct byte_ring *ring;
    uint64_t entry;       /* which it writes or reads */
    uint64_t position;    /* the next byte of a long commit */
    uint64_t entry_limit; /* writer: how far it may go, as last seen */
    uint64_t byte_limit;
    size_t used;  /* bytes of the entry's commit that were written or read */
    size_t count; /* reader: bytes of the entry's commit; 0: not known */
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

/* Reader: copy out at most [length] bytes; the writer gets their room after byte_ring_release, that of a
 * short commit when all of it was read. Returns how many were copied, or -1 if the other end wrote an
 * impossible stamp. */
ssize_t byte_ring_read(struct byte_ring_end *end, void *bytes, size_t length);

/* Reader: has everything been read that was committed so far? */
bool byte_ring_is_empty(const struct byte_ring_end *end);

/* Reader: give the room of what was read to the writer. True if the writer asked to be told. */
bool byte_ring_release(struct byte_ring_end *end);

/* Reader: has everything been read, and will nothing more come? */
bool byte_ring_at_end(struct byte_ring_end *end);

#endif
