/* auth_message.h: how two ends of a connection prove that they hold the job key; bytes only, no sockets.
 *
 * The acceptor sends a challenge; the connector answers who it is, whom it wants and what for, under a keyed
 * hash of both nonces; the acceptor proves the same by its welcome. All three have a fixed length. */
#ifndef AUTH_AUTH_MESSAGE_H
#define AUTH_AUTH_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define HANDSHAKE_VERSION         3 /* of everything that ranks say to each other */
#define HANDSHAKE_NONCE_BYTES     32
#define HANDSHAKE_MAC_BYTES       32
#define HANDSHAKE_CHALLENGE_BYTES (6 + HANDSHAKE_NONCE_BYTES)
#define HANDSHAKE_ANSWER_BYTES    (24 + HANDSHAKE_NONCE_BYTES + HANDSHAKE_MAC_BYTES)
#define HANDSHAKE_WELCOME_BYTES   HANDSHAKE_MAC_BYTES
#define HANDSHAKE_MAX_BYTES       HANDSHAKE_ANSWER_BYTES

/* What the connector says of itself. */
struct handshake_claim {
    uint16_t purpose; /* enum endpoint_purpose */
    uint32_t tag;     /* tells connections of one purpose between the same two ranks apart */
    uint32_t epoch;
    uint32_t from, to; /* ranks */
};

/* Each check returns NULL, or a phrase that says what is wrong: "speaks another protocol". [length] is that
 * of the bytes that came; nothing is read past it. [key] has ROSTER_KEY_BYTES. */

void handshake_challenge(unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES]);
const char *handshake_check_challenge(const unsigned char *challenge, size_t length);

/* Answer a challenge that has been checked. */
void handshake_answer(const unsigned char *key, const unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES],
                      const struct handshake_claim *claim, unsigned char answer[HANDSHAKE_ANSWER_BYTES]);
/* [claim] is set only where the answer is from someone who holds the key. */
const char *handshake_check_answer(const unsigned char *key,
                                   const unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES],
                                   const unsigned char *answer, size_t length, struct handshake_claim *claim);

void handshake_welcome(const unsigned char *key, const unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES],
                       const unsigned char answer[HANDSHAKE_ANSWER_BYTES],
                       unsigned char welcome[HANDSHAKE_WELCOME_BYTES]);
const char *handshake_check_welcome(const unsigned char *key,
                                    const unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES],
                                    const unsigned char answer[HANDSHAKE_ANSWER_BYTES],
                                    const unsigned char *welcome, size_t length);

#endif
