/* record.c: sealed records by the authenticated encryption of libsodium. */
#include "auth/record.h"

#include <sodium.h>
#include <string.h>

#include "base/codec.h"

#define NONCE_BYTES crypto_aead_chacha20poly1305_ietf_NPUBBYTES

_Static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == HANDSHAKE_KEY_BYTES,
               "a session key of the handshake is a key of the seal");
_Static_assert(crypto_aead_chacha20poly1305_ietf_ABYTES == RECORD_TAG_BYTES, "the tag fills its room");

void record_keys(const struct handshake *handshake, struct record_key *send, struct record_key *receive)
{
    send->count = receive->count = 0;
    handshake_session_keys(handshake, send->bytes, receive->bytes);
}

void record_keys_wipe(struct record_key *send, struct record_key *receive)
{
    sodium_memzero(send, sizeof(*send));
    sodium_memzero(receive, sizeof(*receive));
}

static void next_nonce(struct record_key *key, unsigned char nonce[NONCE_BYTES])
{
    struct encoder encoder = {nonce, NONCE_BYTES, false};
    memset(nonce, 0, NONCE_BYTES);
    encode_number(&encoder, key->count++, 8);
}

void record_seal(struct record_key *key, unsigned char *record, const void *contents, size_t length)
{
    unsigned char nonce[NONCE_BYTES];
    struct encoder encoder = {record, RECORD_HEAD_BYTES, false};
    encode_number(&encoder, length, RECORD_HEAD_BYTES);
    next_nonce(key, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(record + RECORD_HEAD_BYTES, NULL, contents, length, record,
                                              RECORD_HEAD_BYTES, NULL, nonce, key->bytes);
}

uint64_t record_announces(const unsigned char *record)
{
    struct decoder decoder = {record, RECORD_HEAD_BYTES, false};
    return decode_number(&decoder, RECORD_HEAD_BYTES);
}

bool record_open(struct record_key *key, const unsigned char *record, void *contents, size_t length)
{
    unsigned char nonce[NONCE_BYTES];
    next_nonce(key, nonce);
    return crypto_aead_chacha20poly1305_ietf_decrypt(contents, NULL, NULL, record + RECORD_HEAD_BYTES,
                                                     length + RECORD_TAG_BYTES, record, RECORD_HEAD_BYTES,
                                                     nonce, key->bytes) == 0;
}
