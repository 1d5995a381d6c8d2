/* handshake.h: one connection on its way from a bare socket to a peer that has proved who it is; never
 * blocks.
 */
#ifndef AUTH_HANDSHAKE_H
#define AUTH_HANDSHAKE_H

#include <stdbool.h>
#include <netinet/in.h>

#include "auth/auth_message.h"

#define GREETING_LIMIT_US INT64_C(5000000) /* how long one may take: a peer that is there answers at once */

enum greeting_state {
    GREETING_CONNECTING,
    GREETING_AWAITS_CHALLENGE, /* connector */
    GREETING_AWAITS_WELCOME,
    GREETING_AWAITS_ANSWER, /* acceptor */
    GREETING_AWAITS_CONSENT,
    GREETING_SENDS_WELCOME,
    GREETING_STATE_COUNT
};

enum greeting_result {
    GREETING_WAITS, /* for its socket: greeting_events */
    GREETING_ASKS,  /* the acceptor looks at claim, then calls greeting_admit or greeting_end */
    GREETING_DONE,  /* take fd, and set it to -1 */
    GREETING_FAILED /* for the reason in why */
};

struct greeting {
    int fd; /* -1: none */
    enum greeting_state state;
    int64_t limit_us; /* past this it has failed */
    const unsigned char *key;
    struct handshake_claim claim; /* what we say, or what the peer has proved to say */
    const char *why;
    bool stranger; /* what failed was not the network: the other end is not one of ours */
    unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES], answer[HANDSHAKE_ANSWER_BYTES];
    unsigned char in[HANDSHAKE_MAX_BYTES], out[HANDSHAKE_MAX_BYTES];
    size_t in_awaited, in_have, out_length, out_sent;
};

/* Begin to connect. -1 with the reason in why where the network refuses at once. [key] is borrowed. */
int greeting_connect(struct greeting *greeting, const unsigned char *key, const struct handshake_claim *claim,
                     const struct in6_addr *address, uint16_t port);

/* Begin on a socket that came out of accept, non-blocking; takes it. */
void greeting_accept(struct greeting *greeting, const unsigned char *key, int fd);

/* What poll should wait for. */
short greeting_events(const struct greeting *greeting);

/* Go as far as possible; call it only when poll has said so. */
enum greeting_result greeting_advance(struct greeting *greeting);

/* The claim is one that was waited for: say welcome. Call greeting_advance next. */
void greeting_admit(struct greeting *greeting);

/* Close the socket, if any. */
void greeting_end(struct greeting *greeting);

#endif
