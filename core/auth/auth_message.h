/* auth_message.h: how two ends of a connection prove that they hold the job key; bytes only, no sockets.
 *
 * The acceptor sends a challenge; the connector answers who it is, whom it wants and what for, under a keyed
 * hash of both nonces; the acceptor proves the same by its confirmation. All three have a fixed length. */
#ifndef AUTH_AUTH_MESSAGE_H
#define AUTH_AUTH_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define AUTH_VERSION            3 /* of everything that ranks say to each other */
#define AUTH_NONCE_BYTES        32
#define AUTH_MAC_BYTES          32
#define AUTH_CHALLENGE_BYTES    (6 + AUTH_NONCE_BYTES)
#define AUTH_RESPONSE_BYTES     (24 + AUTH_NONCE_BYTES + AUTH_MAC_BYTES)
#define AUTH_CONFIRMATION_BYTES AUTH_MAC_BYTES
#define AUTH_MAX_BYTES          AUTH_RESPONSE_BYTES

/* What the connector says of itself. */
struct auth_claim {
    uint16_t purpose; /* enum endpoint_purpose */
    uint32_t tag;     /* tells connections of one purpose between the same two ranks apart */
    uint32_t epoch;
    uint32_t from, to; /* ranks */
};

/* Each check returns NULL, or a phrase that says what is wrong: "speaks another protocol". [length] is that
 * of the bytes that came; nothing is read past it. [key] has JOB_KEY_BYTES. */

void auth_make_challenge(unsigned char challenge[AUTH_CHALLENGE_BYTES]);
const char *auth_check_challenge(const unsigned char *challenge, size_t length);

/* Answer a challenge that has been checked. */
void auth_make_response(const unsigned char *key, const unsigned char challenge[AUTH_CHALLENGE_BYTES],
                        const struct auth_claim *claim, unsigned char response[AUTH_RESPONSE_BYTES]);
/* [claim] is set only where the response is from someone who holds the key. */
const char *auth_check_response(const unsigned char *key, const unsigned char challenge[AUTH_CHALLENGE_BYTES],
                                const unsigned char *response, size_t length, struct auth_claim *claim);

void auth_make_confirmation(const unsigned char *key, const unsigned char challenge[AUTH_CHALLENGE_BYTES],
                            const unsigned char response[AUTH_RESPONSE_BYTES],
                            unsigned char confirmation[AUTH_CONFIRMATION_BYTES]);
const char *auth_check_confirmation(const unsigned char *key,
                                    const unsigned char challenge[AUTH_CHALLENGE_BYTES],
                                    const unsigned char response[AUTH_RESPONSE_BYTES],
                                    const unsigned char *confirmation, size_t length);

#endif
