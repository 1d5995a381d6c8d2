/* fuzz_lines.c: the output of ranks, which hvdrun merges into lines. The first byte of an input says with
 * prefixes or not, and to a terminal or not; then each step is a byte that says what is done, and for which
 * rank. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "tools/hvdrun/lines.h"

#define RANKS 4

enum { PREFIX = 1, TERMINAL = 2 }; /* bits of the first byte */

enum { SHOW, END, DROP, WRITE }; /* any more write too: as many bytes as the step says, which follow it */

/* Returns how many bytes were written. */
static size_t feed(struct lines *lines, struct line_buffer *buffer, const unsigned char *bytes, size_t length)
{
    size_t room = 0;
    char *to = line_buffer_room(buffer, &room);
    assert(to != NULL && room > 0);
    length = length < room ? length : room;
    memcpy(to, bytes, length);
    lines_feed(lines, buffer, length);
    return length;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct lines lines;
    struct line_buffer buffers[RANKS] = {{.rank = 0}, {.rank = 1}, {.rank = 2}, {.rank = 3}};
    size_t written = 0, dropped = 0;
    if (length < 1)
        return 0;
    bool prefix = (bytes[0] & PREFIX) != 0;
    const struct line_prefix line_prefix = {LINE_PREFIX_DEFAULT, ""};
    lines_init(&lines, prefix ? &line_prefix : NULL, (bytes[0] & TERMINAL) != 0);
    for (bytes++, length--; length > 0;) {
        struct line_buffer *buffer = &buffers[bytes[0] % RANKS];
        size_t what = bytes[0] / RANKS, waiting = lines.out.end - lines.out.first;
        bytes++;
        length--;
        if (what == SHOW) {
            lines_show(&lines, buffer);
        } else if (what == END) {
            lines_end(&lines, buffer);
        } else if (what == DROP) {
            text_buffer_drop(&lines.out, waiting / 2);
            dropped += waiting / 2;
        } else {
            size_t part = feed(&lines, buffer, bytes, what - WRITE < length ? what - WRITE : length);
            bytes += part;
            length -= part;
            written += part;
        }
        assert(lines.out.first <= lines.out.end && lines.out.end <= lines.out.room);
    }
    for (int rank = 0; rank < RANKS; rank++)
        lines_end(&lines, &buffers[rank]);
    assert(prefix || dropped + lines.out.end - lines.out.first == written); /* passed on unchanged */
    for (int rank = 0; rank < RANKS; rank++)
        line_buffer_fini(&buffers[rank]);
    lines_fini(&lines);
    return 0;
}
