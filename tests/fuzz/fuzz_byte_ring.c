/* fuzz_byte_ring.c: rings of bytes in the memory that the ranks of a node share, whose other end writes
 * impossible stamps and positions. An input is a list of steps: a byte that says what, and a number of three
 * bytes. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "node/byte_ring.h"

enum { SET_STAMP, COMMIT, SET_ENTRY_TAIL, SET_BYTE_TAIL, READ, WRITE, KINDS };

/* Of the next commit. */
static void set_stamp(const struct byte_ring_end *reader, uint64_t stamp)
{
    atomic_store(&reader->ring->entries[reader->entry % BYTE_RING_ENTRIES].stamp, stamp);
}

static void read_some(struct byte_ring_end *end, size_t length)
{
    static unsigned char bytes[4 * BYTE_RING_BYTES];
    ssize_t got = byte_ring_read(end, bytes, length);
    assert(got >= -1 && got <= (ssize_t)length);
    byte_ring_release(end);
    byte_ring_at_end(end);
}

static void write_some(struct byte_ring_end *end, size_t length)
{
    static const unsigned char bytes[4 * BYTE_RING_BYTES];
    ssize_t put = byte_ring_write(end, bytes, length);
    assert(put >= -1 && put <= (ssize_t)length && put <= BYTE_RING_BYTES);
    byte_ring_commit(end);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static struct byte_ring rings[2]; /* read from, written to */
    struct byte_ring_end reader = {.ring = &rings[0]}, writer = {.ring = &rings[1]};
    memset(rings, 0, sizeof(rings));
    for (; length >= 4; bytes += 4, length -= 4) {
        uint64_t number = (uint64_t)bytes[1] << 16 | (uint64_t)bytes[2] << 8 | bytes[3];
        uint64_t position = bytes[0] < 128 ? number : 0 - number;
        switch (bytes[0] % KINDS) {
        case SET_STAMP:
            set_stamp(&reader, position);
            break;
        case COMMIT: /* of any number of bytes */
            set_stamp(&reader, (reader.entry + BYTE_RING_ENTRIES) << 20 | (number & 0xfffff));
            break;
        case SET_ENTRY_TAIL:
            atomic_store(&rings[1].entry_tail, position);
            break;
        case SET_BYTE_TAIL:
            atomic_store(&rings[1].byte_tail, position);
            break;
        case READ:
            read_some(&reader, number % (4 * BYTE_RING_BYTES));
            break;
        default:
            write_some(&writer, number % (4 * BYTE_RING_BYTES));
        }
    }
    return 0;
}
