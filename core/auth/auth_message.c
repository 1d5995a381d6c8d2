/* auth_message.c: how two ends of a connection prove that they hold the job key. */
#include "auth/auth_message.h"

#include <sodium.h>

#include "base/codec.h"
#include "net/peer_table.h"

#define CHALLENGE_MAGIC UINT32_C(0x63647668) /* "hvdc" */
#define RESPONSE_MAGIC  UINT32_C(0x61647668) /* "hvda" */

_Static_assert(crypto_auth_KEYBYTES == JOB_KEY_BYTES, "the job key is a key for crypto_auth");
_Static_assert(crypto_auth_BYTES == AUTH_MAC_BYTES, "a MAC of crypto_auth fits");

/* The hash of what was said so far: a [label] keeps one direction's MAC from being played back in the other.
 */
static void compute_mac(const unsigned char *key, char label, const unsigned char *challenge,
                        const unsigned char *response, size_t response_bytes,
                        unsigned char mac[AUTH_MAC_BYTES])
{
    unsigned char said[1 + AUTH_CHALLENGE_BYTES + AUTH_RESPONSE_BYTES];
    struct encoder writer = {said, sizeof(said), false};
    encode_number(&writer, (unsigned char)label, 1);
    encode_raw(&writer, challenge, AUTH_CHALLENGE_BYTES);
    encode_raw(&writer, response, response_bytes);
    crypto_auth(mac, said, sizeof(said) - writer.left, key);
}

void auth_make_challenge(unsigned char challenge[AUTH_CHALLENGE_BYTES])
{
    unsigned char nonce[AUTH_NONCE_BYTES];
    struct encoder writer = {challenge, AUTH_CHALLENGE_BYTES, false};
    randombytes_buf(nonce, sizeof(nonce));
    encode_number(&writer, CHALLENGE_MAGIC, 4);
    encode_number(&writer, AUTH_VERSION, 2);
    encode_raw(&writer, nonce, sizeof(nonce));
}

static const char *check_header(struct decoder *reader, uint32_t magic)
{
    uint64_t said_magic = decode_number(reader, 4);
    uint64_t said_version = decode_number(reader, 2);
    if (reader->failed)
        return "sent too few bytes";
    if (said_magic != magic)
        return "does not speak hvd's protocol";
    return said_version == AUTH_VERSION ? NULL : "speaks another version of hvd's protocol";
}

const char *auth_check_challenge(const unsigned char *challenge, size_t length)
{
    struct decoder reader = {challenge, length, false};
    const char *why = check_header(&reader, CHALLENGE_MAGIC);
    if (why != NULL)
        return why;
    return reader.left == AUTH_NONCE_BYTES ? NULL : "sent a challenge of the wrong length";
}

void auth_make_response(const unsigned char *key, const unsigned char challenge[AUTH_CHALLENGE_BYTES],
                        const struct auth_claim *claim, unsigned char response[AUTH_RESPONSE_BYTES])
{
    unsigned char nonce[AUTH_NONCE_BYTES], mac[AUTH_MAC_BYTES];
    struct encoder writer = {response, AUTH_RESPONSE_BYTES, false};
    randombytes_buf(nonce, sizeof(nonce));
    encode_number(&writer, RESPONSE_MAGIC, 4);
    encode_number(&writer, AUTH_VERSION, 2);
    encode_number(&writer, claim->purpose, 2);
    encode_number(&writer, claim->tag, 4);
    encode_number(&writer, claim->epoch, 4);
    encode_number(&writer, claim->from, 4);
    encode_number(&writer, claim->to, 4);
    encode_raw(&writer, nonce, sizeof(nonce));
    compute_mac(key, 'a', challenge, response, AUTH_RESPONSE_BYTES - AUTH_MAC_BYTES, mac);
    encode_raw(&writer, mac, sizeof(mac));
}

const char *auth_check_response(const unsigned char *key, const unsigned char challenge[AUTH_CHALLENGE_BYTES],
                                const unsigned char *response, size_t length, struct auth_claim *claim)
{
    struct decoder reader = {response, length, false};
    unsigned char expected[AUTH_MAC_BYTES];
    const char *why = check_header(&reader, RESPONSE_MAGIC);
    if (why != NULL)
        return why;
    if (length != AUTH_RESPONSE_BYTES)
        return "sent an response of the wrong length";
    compute_mac(key, 'a', challenge, response, AUTH_RESPONSE_BYTES - AUTH_MAC_BYTES, expected);
    if (sodium_memcmp(expected, response + AUTH_RESPONSE_BYTES - AUTH_MAC_BYTES, sizeof(expected)) != 0)
        return "does not hold the key of this job";
    claim->purpose = (uint16_t)decode_number(&reader, 2);
    claim->tag = (uint32_t)decode_number(&reader, 4);
    claim->epoch = (uint32_t)decode_number(&reader, 4);
    claim->from = (uint32_t)decode_number(&reader, 4);
    claim->to = (uint32_t)decode_number(&reader, 4);
    return NULL;
}

void auth_make_confirmation(const unsigned char *key, const unsigned char challenge[AUTH_CHALLENGE_BYTES],
                            const unsigned char response[AUTH_RESPONSE_BYTES],
                            unsigned char confirmation[AUTH_CONFIRMATION_BYTES])
{
    compute_mac(key, 'w', challenge, response, AUTH_RESPONSE_BYTES, confirmation);
}

const char *auth_check_confirmation(const unsigned char *key,
                                    const unsigned char challenge[AUTH_CHALLENGE_BYTES],
                                    const unsigned char response[AUTH_RESPONSE_BYTES],
                                    const unsigned char *confirmation, size_t length)
{
    unsigned char expected[AUTH_MAC_BYTES];
    if (length != AUTH_CONFIRMATION_BYTES)
        return "sent a confirmation of the wrong length";
    auth_make_confirmation(key, challenge, response, expected);
    return sodium_memcmp(expected, confirmation, sizeof(expected)) == 0 ? NULL
                                                                        : "does not hold the key of this job";
}
