/* fuzz_channel.h: both ends of a connection whose handshake is done, for targets that fuzz what comes after.
 */
#ifndef TESTS_FUZZ_FUZZ_CHANNEL_H
#define TESTS_FUZZ_FUZZ_CHANNEL_H

#include <stdbool.h>
#include <sys/socket.h>

#include "auth/handshake.h"

static const unsigned char key[HANDSHAKE_KEY_BYTES] = "a key of the job";

/* Each end owns its socket; the second one has connected. False: there are no sockets. */
static inline bool make_ends(struct handshake ends[2])
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
        return false;
    for (int end = 0; end < 2; end++)
        ends[end] = (struct handshake){
            .key = key, .length = HANDSHAKE_ALL_BYTES, .fd = fds[end], .connector = end == 1};
    return true;
}

#endif
