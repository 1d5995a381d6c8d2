/* fuzz_attach.c: a packet by which ranks of a node come to share memory, from hostile bytes. The first byte
 * of an input says which is expected, and how many descriptors come along. */
#include <assert.h>

#include "fuzz.h"
#include "fuzz_packet.h"
#include "node/attach.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    int ends[2];
    struct attach_packet packet;
    struct attach_fds fds;
    struct hvd_error err = {""};
    if (length < 1 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
        return 0;
    int type = ATTACH_DOORBELL + bytes[0] % ATTACH_REFUSAL, fd_count = bytes[0] / 8 % (ATTACH_MAX_FDS + 1);
    int lowest = lowest_free(ends[0]);
    if (send_packet(ends[0], bytes + 1, length - 1, fd_count)) {
        int rc = attach_receive(ends[1], (enum attach_packet_type)type, &packet, &fds, &err);
        assert(rc == HVD_OK || fds.count == 0);
        assert(rc == HVD_OK ||
               (rc == HVD_IN_PROGRESS ? length == 1 : err.text[0] != 0)); /* an empty packet is none */
        assert(rc != HVD_OK || (packet.type == type && fds.count == fd_count));
        attach_close_fds(&fds);
    }
    assert(lowest_free(ends[0]) == lowest);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
