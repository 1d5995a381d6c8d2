/* byte_ring.c: a ring of bytes in memory that two processes share: one writes, one reads. */
#include "config.h"
#include "node/byte_ring.h"

#include <string.h>

/* Positions are stored and loaded in sequentially consistent order. An end that goes to sleep first stores
 * its request to be woken, then loads the other end's position; the other end sees both in that order,
 * without fences. */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

ssize_t byte_ring_write(struct byte_ring_end *end, const void *bytes, size_t length)
{
    if (end->limit - end->position < length) {
        uint64_t tail = atomic_load(&end->ring->tail);
        if (end->position - tail > BYTE_RING_BYTES)
            return -1;
        end->limit = tail + BYTE_RING_BYTES;
    }
    size_t count = smaller(length, (size_t)(end->limit - end->position));
    size_t offset = (size_t)(end->position % BYTE_RING_BYTES);
    size_t first = smaller(count, BYTE_RING_BYTES - offset);
    if (count == 0)
        return 0;
    memcpy(end->ring->data + offset, bytes, first);
    memcpy(end->ring->data, (const unsigned char *)bytes + first, count - first);
    end->position += count;
    return (ssize_t)count;
}

void byte_ring_commit(struct byte_ring_end *end)
{
    atomic_store(&end->ring->head, end->position);
}

void byte_ring_request_room(struct byte_ring_end *end)
{
    atomic_store(&end->ring->writer_waits, 1);
}

void byte_ring_close(struct byte_ring_end *end)
{
    atomic_store(&end->ring->closed, 1);
}

ssize_t byte_ring_read(struct byte_ring_end *end, void *bytes, size_t length)
{
    if (end->limit == end->position) {
        uint64_t head = atomic_load(&end->ring->head);
        if (head - end->position > BYTE_RING_BYTES)
            return -1;
        end->limit = head;
    }
    size_t count = smaller(length, (size_t)(end->limit - end->position));
    size_t offset = (size_t)(end->position % BYTE_RING_BYTES);
    size_t first = smaller(count, BYTE_RING_BYTES - offset);
    if (count == 0)
        return 0;
    memcpy(bytes, end->ring->data + offset, first);
    memcpy((unsigned char *)bytes + first, end->ring->data, count - first);
    end->position += count;
    return (ssize_t)count;
}

bool byte_ring_is_empty(const struct byte_ring_end *end)
{
    return end->limit == end->position && atomic_load(&end->ring->head) == end->position;
}

bool byte_ring_release(struct byte_ring_end *end)
{
    atomic_store(&end->ring->tail, end->position);
    return atomic_load(&end->ring->writer_waits) != 0 && atomic_exchange(&end->ring->writer_waits, 0) != 0;
}

bool byte_ring_at_end(struct byte_ring_end *end)
{
    /* closed is stored after the last head */
    return atomic_load(&end->ring->closed) != 0 && atomic_load(&end->ring->head) == end->position;
}
