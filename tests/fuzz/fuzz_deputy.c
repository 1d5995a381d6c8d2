/* fuzz_deputy.c: what a leader that has died left for its deputy: a packet with descriptors, of which the
 * first byte of an input says how many. */
#include <assert.h>

#include "fuzz.h"
#include "fuzz_packet.h"
#include "node/deputy.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    int ends[2];
    if (length < 1 || deputy_open(ends) < 0)
        return 0;
    int lowest = lowest_free(ends[0]);
    int fd_count = bytes[0] % (FD_PASSING_MAX + 1);
    bool sent = send_packet(ends[0], bytes + 1, length - 1, fd_count);
    deputy_end_connections(ends[1]);
    assert(lowest_free(ends[0]) == lowest);
    bool ends_it = sent && fd_count > 0 && length > 1; /* an empty packet is none */
    assert(!ends_it || send(ends[0], "", 1, MSG_NOSIGNAL) < 0);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
