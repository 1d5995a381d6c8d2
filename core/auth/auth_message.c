/* auth_message.c: how two ends of a connection prove that they hold the job key. */
#include "auth/auth_message.h"

#include <sodium.h>

#include "base/codec.h"
#include "net/peer_table.h"

#define CHALLENGE_MAGIC UINT32_C(0x63647668) /* "hvdc" */
#define ANSWER_MAGIC    UINT32_C(0x61647668) /* "hvda" */

_Static_assert(crypto_auth_KEYBYTES == ROSTER_KEY_BYTES, "the job key is a key for crypto_auth");
_Static_assert(crypto_auth_BYTES == HANDSHAKE_MAC_BYTES, "a MAC of crypto_auth fits");

/* The hash of what was said so far: a [label] keeps one direction's MAC from being played back in the other.
 */
static void sign(const unsigned char *key, char label, const unsigned char *challenge,
                 const unsigned char *answer, size_t answer_bytes, unsigned char mac[HANDSHAKE_MAC_BYTES])
{
    unsigned char said[1 + HANDSHAKE_CHALLENGE_BYTES + HANDSHAKE_ANSWER_BYTES];
    struct writer writer = {said, sizeof(said), false};
    write_number(&writer, (unsigned char)label, 1);
    write_raw(&writer, challenge, HANDSHAKE_CHALLENGE_BYTES);
    write_raw(&writer, answer, answer_bytes);
    crypto_auth(mac, said, sizeof(said) - writer.left, key);
}

void handshake_challenge(unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES])
{
    unsigned char nonce[HANDSHAKE_NONCE_BYTES];
    struct writer writer = {challenge, HANDSHAKE_CHALLENGE_BYTES, false};
    randombytes_buf(nonce, sizeof(nonce));
    write_number(&writer, CHALLENGE_MAGIC, 4);
    write_number(&writer, HANDSHAKE_VERSION, 2);
    write_raw(&writer, nonce, sizeof(nonce));
}

static const char *check_head(struct reader *reader, uint32_t magic)
{
    uint64_t said_magic = read_number(reader, 4);
    uint64_t said_version = read_number(reader, 2);
    if (reader->failed)
        return "sent too few bytes";
    if (said_magic != magic)
        return "does not speak hvd's protocol";
    return said_version == HANDSHAKE_VERSION ? NULL : "speaks another version of hvd's protocol";
}

const char *handshake_check_challenge(const unsigned char *challenge, size_t length)
{
    struct reader reader = {challenge, length, false};
    const char *why = check_head(&reader, CHALLENGE_MAGIC);
    if (why != NULL)
        return why;
    return reader.left == HANDSHAKE_NONCE_BYTES ? NULL : "sent a challenge of the wrong length";
}

void handshake_answer(const unsigned char *key, const unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES],
                      const struct handshake_claim *claim, unsigned char answer[HANDSHAKE_ANSWER_BYTES])
{
    unsigned char nonce[HANDSHAKE_NONCE_BYTES], mac[HANDSHAKE_MAC_BYTES];
    struct writer writer = {answer, HANDSHAKE_ANSWER_BYTES, false};
    randombytes_buf(nonce, sizeof(nonce));
    write_number(&writer, ANSWER_MAGIC, 4);
    write_number(&writer, HANDSHAKE_VERSION, 2);
    write_number(&writer, claim->purpose, 2);
    write_number(&writer, claim->tag, 4);
    write_number(&writer, claim->epoch, 4);
    write_number(&writer, claim->from, 4);
    write_number(&writer, claim->to, 4);
    write_raw(&writer, nonce, sizeof(nonce));
    sign(key, 'a', challenge, answer, HANDSHAKE_ANSWER_BYTES - HANDSHAKE_MAC_BYTES, mac);
    write_raw(&writer, mac, sizeof(mac));
}

const char *handshake_check_answer(const unsigned char *key,
                                   const unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES],
                                   const unsigned char *answer, size_t length, struct handshake_claim *claim)
{
    struct reader reader = {answer, length, false};
    unsigned char expected[HANDSHAKE_MAC_BYTES];
    const char *why = check_head(&reader, ANSWER_MAGIC);
    if (why != NULL)
        return why;
    if (length != HANDSHAKE_ANSWER_BYTES)
        return "sent an answer of the wrong length";
    sign(key, 'a', challenge, answer, HANDSHAKE_ANSWER_BYTES - HANDSHAKE_MAC_BYTES, expected);
    if (sodium_memcmp(expected, answer + HANDSHAKE_ANSWER_BYTES - HANDSHAKE_MAC_BYTES, sizeof(expected)) != 0)
        return "does not hold the key of this job";
    claim->purpose = (uint16_t)read_number(&reader, 2);
    claim->tag = (uint32_t)read_number(&reader, 4);
    claim->epoch = (uint32_t)read_number(&reader, 4);
    claim->from = (uint32_t)read_number(&reader, 4);
    claim->to = (uint32_t)read_number(&reader, 4);
    return NULL;
}

void handshake_welcome(const unsigned char *key, const unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES],
                       const unsigned char answer[HANDSHAKE_ANSWER_BYTES],
                       unsigned char welcome[HANDSHAKE_WELCOME_BYTES])
{
    sign(key, 'w', challenge, answer, HANDSHAKE_ANSWER_BYTES, welcome);
}

const char *handshake_check_welcome(const unsigned char *key,
                                    const unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES],
                                    const unsigned char answer[HANDSHAKE_ANSWER_BYTES],
                                    const unsigned char *welcome, size_t length)
{
    unsigned char expected[HANDSHAKE_MAC_BYTES];
    if (length != HANDSHAKE_WELCOME_BYTES)
        return "sent a welcome of the wrong length";
    handshake_welcome(key, challenge, answer, expected);
    return sodium_memcmp(expected, welcome, sizeof(expected)) == 0 ? NULL
                                                                   : "does not hold the key of this job";
}
