/* handshake.h: one connection on its way from a bare socket to a peer that has proved who it is; never
 * blocks.
 */
#ifndef AUTH_HANDSHAKE_H
#define AUTH_HANDSHAKE_H

#include <stdbool.h>
#include <netinet/in.h>

#include "auth/auth_message.h"

#define HANDSHAKE_TIMEOUT_US \
    INT64_C(5000000) /* how long one may take: a peer that is there answers at once */

enum handshake_state {
    HANDSHAKE_CONNECTING,
    HANDSHAKE_AWAITS_CHALLENGE, /* connector */
    HANDSHAKE_AWAITS_CONFIRMATION,
    HANDSHAKE_AWAITS_RESPONSE, /* acceptor */
    HANDSHAKE_AWAITS_ADMISSION,
    HANDSHAKE_SENDS_CONFIRMATION,
    HANDSHAKE_STATE_COUNT
};

enum handshake_result {
    HANDSHAKE_WAITS,   /* for its socket: handshake_poll_events */
    HANDSHAKE_CLAIMED, /* the acceptor looks at claim, then calls handshake_admit or handshake_close */
    HANDSHAKE_DONE,    /* take fd, and set it to -1 */
    HANDSHAKE_FAILED   /* for the reason in why */
};

struct handshake {
    int fd; /* -1: none */
    enum handshake_state state;
    int64_t deadline_us; /* past this it has failed */
    const unsigned char *key;
    struct auth_claim claim; /* what we say, or what the peer has proved to say */
    const char *why;
    bool foreign; /* what failed was not the network: the other end is not one of ours */
    unsigned char challenge[AUTH_CHALLENGE_BYTES], response[AUTH_RESPONSE_BYTES];
    unsigned char in[AUTH_MAX_BYTES], out[AUTH_MAX_BYTES];
    size_t in_expected, in_have, out_length, out_sent;
};

/* Begin to connect. -1 with the reason in why where the network refuses at once. [key] is borrowed. */
int handshake_connect(struct handshake *handshake, const unsigned char *key, const struct auth_claim *claim,
                      const struct in6_addr *address, uint16_t port);

/* Begin on a socket that came out of accept, non-blocking; takes it. */
void handshake_accept(struct handshake *handshake, const unsigned char *key, int fd);

/* What poll should wait for. */
short handshake_poll_events(const struct handshake *handshake);

/* Go as far as possible; call it only when poll has said so. */
enum handshake_result handshake_advance(struct handshake *handshake);

/* The claim is one that was waited for: say confirmation. Call handshake_advance next. */
void handshake_admit(struct handshake *handshake);

/* Close the socket, if any. */
void handshake_close(struct handshake *handshake);

#endif
