/* byte_ring.c: a ring of bytes in memory that two processes share: one writes, one reads. */
#include "config.h"
#include "node/byte_ring.h"

#include <string.h>

/* Stamps and positions are stored and loaded in sequentially consistent order. An end that goes to sleep
 * first stores its request to be woken, then loads what the other end writes; the other end sees both in that
 * order, without fences. */

/* A stamp is the number of its commit in the upper bits, and how many bytes that has in the lower ones.
 * Numbers begin behind those that zeroed memory could mean. */
#define COUNT_BITS 20

_Static_assert(BYTE_RING_BYTES < 1 << COUNT_BITS, "a stamp must hold the bytes of a commit");

static uint64_t number_of(uint64_t entry)
{
    return entry + BYTE_RING_ENTRIES;
}

static struct byte_ring_entry *entry_of(const struct byte_ring_end *end)
{
    return &end->ring->entries[end->entry % BYTE_RING_ENTRIES];
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void byte_ring_reset(struct byte_ring *ring)
{
    memset(ring, 0, offsetof(struct byte_ring, data));
}

/* ---- Writer ---- */

/* For how many of [wanted] entries, or bytes, there is room at [position]; -1 where the reader's [tail] is
 * impossible. [limit]: how far the writer may go, as last seen. */
static ssize_t find_room(uint64_t position, uint64_t *limit, const _Atomic uint64_t *tail, uint64_t capacity,
                         size_t wanted)
{
    if (*limit - position < wanted) {
        uint64_t done = atomic_load(tail);
        if (position - done > capacity)
            return -1;
        *limit = done + capacity;
    }
    return (ssize_t)smaller(wanted, (size_t)(*limit - position));
}

static void append(struct byte_ring_end *end, const void *bytes, size_t count)
{
    size_t offset = (size_t)(end->position % BYTE_RING_BYTES);
    size_t first = smaller(count, BYTE_RING_BYTES - offset);
    memcpy(end->ring->data + offset, bytes, first);
    memcpy(end->ring->data, (const unsigned char *)bytes + first, count - first);
    end->position += count;
}

static size_t append_short(struct byte_ring_end *end, const void *bytes, size_t count)
{
    memcpy(entry_of(end)->bytes + end->used, bytes, count);
    end->used += count;
    return count;
}

ssize_t byte_ring_write(struct byte_ring_end *end, const void *bytes, size_t length)
{
    struct byte_ring *ring = end->ring;
    ssize_t entries =
        end->used > 0 ? 1 : find_room(end->entry, &end->entry_limit, &ring->entry_tail, BYTE_RING_ENTRIES, 1);
    if (entries <= 0)
        return entries;
    bool is_short = end->used <= BYTE_RING_SHORT_BYTES;
    if (is_short && length <= BYTE_RING_SHORT_BYTES - end->used)
        return (ssize_t)append_short(end, bytes, length);

    /* it is a long commit, or would become one; what it has moves along */
    size_t moved = is_short ? end->used : 0;
    ssize_t room =
        find_room(end->position, &end->byte_limit, &ring->byte_tail, BYTE_RING_BYTES, moved + length);
    if (room < 0)
        return -1;
    if (is_short && (size_t)room <= BYTE_RING_SHORT_BYTES) /* too few to tell it from a short one */
        return (ssize_t)append_short(end, bytes, BYTE_RING_SHORT_BYTES - end->used);
    size_t count = (size_t)room - moved;
    append(end, entry_of(end)->bytes, moved);
    append(end, bytes, count);
    end->used += count;
    return (ssize_t)count;
}

void byte_ring_commit(struct byte_ring_end *end)
{
    if (end->used == 0)
        return;
    atomic_store(&entry_of(end)->stamp, number_of(end->entry) << COUNT_BITS | end->used);
    end->entry++;
    end->used = 0;
}

void byte_ring_request_room(struct byte_ring_end *end)
{
    atomic_store(&end->ring->writer_waits, 1);
}

void byte_ring_close(struct byte_ring_end *end)
{
    atomic_store(&end->ring->closed, 1);
}

/* ---- Reader ---- */

/* How many bytes the next commit has. 0: it is not there yet. -1: its stamp is impossible. */
static ssize_t look_at_entry(const struct byte_ring_end *end)
{
    uint64_t stamp = atomic_load(&entry_of(end)->stamp);
    uint64_t count = stamp & ((1 << COUNT_BITS) - 1);
    if (stamp >> COUNT_BITS == number_of(end->entry))
        return count > 0 && count <= BYTE_RING_BYTES ? (ssize_t)count : -1;
    return stamp >> COUNT_BITS <= end->entry ? 0 : -1;
}

static void take(struct byte_ring_end *end, void *bytes, size_t count)
{
    if (end->count <= BYTE_RING_SHORT_BYTES) {
        memcpy(bytes, entry_of(end)->bytes + end->used, count);
    } else {
        size_t offset = (size_t)(end->position % BYTE_RING_BYTES);
        size_t first = smaller(count, BYTE_RING_BYTES - offset);
        memcpy(bytes, end->ring->data + offset, first);
        memcpy((unsigned char *)bytes + first, end->ring->data, count - first);
        end->position += count;
    }
    end->used += count;
}

ssize_t byte_ring_read(struct byte_ring_end *end, void *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t committed = end->count > 0 ? (ssize_t)end->count : look_at_entry(end);
        if (committed < 0)
            return -1;
        if (committed == 0)
            break;
        end->count = (size_t)committed;
        size_t count = smaller(length - done, end->count - end->used);
        take(end, (unsigned char *)bytes + done, count);
        done += count;
        if (end->used == end->count) {
            end->entry++;
            end->used = end->count = 0;
        }
    }
    return (ssize_t)done;
}

bool byte_ring_is_empty(const struct byte_ring_end *end)
{
    return end->count == 0 && look_at_entry(end) == 0;
}

bool byte_ring_release(struct byte_ring_end *end)
{
    atomic_store_explicit(&end->ring->byte_tail, end->position, memory_order_release);
    atomic_store(&end->ring->entry_tail, end->entry);
    return atomic_load(&end->ring->writer_waits) != 0 && atomic_exchange(&end->ring->writer_waits, 0) != 0;
}

bool byte_ring_at_end(struct byte_ring_end *end)
{
    /* closed is stored after the last stamp */
    return atomic_load(&end->ring->closed) != 0 && byte_ring_is_empty(end);
}
