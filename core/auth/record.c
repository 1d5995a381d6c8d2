/* record.c: sealed records by AES-256-GCM of OpenSSL's libcrypto, which uses what the processor has for it.
 */
#include "auth/record.h"

#include <openssl/evp.h>
#include <sodium.h>
#include <string.h>

#include "base/codec.h"

#define NONCE_BYTES 12

_Static_assert(HANDSHAKE_KEY_BYTES == 32, "a session key of the handshake is a key for AES-256");
_Static_assert(HANDSHAKE_KEY_BYTES >= crypto_generichash_KEYBYTES_MIN &&
                   HANDSHAKE_KEY_BYTES <= crypto_generichash_BYTES_MAX,
               "a key is made by a keyed hash from the one before it");

enum direction { RECORD_OPEN, RECORD_SEAL }; /* as EVP_CipherInit_ex numbers them */

/* ---- Keys ---- */

static bool make_cipher(struct record_key *key, enum direction direction)
{
    key->cipher = EVP_CIPHER_CTX_new();
    return key->cipher != NULL &&
           EVP_CipherInit_ex(key->cipher, EVP_aes_256_gcm(), NULL, key->bytes, NULL, direction) == 1;
}

int record_keys(const struct handshake *handshake, struct record_key *send, struct record_key *receive,
                struct hvd_error *err)
{
    *send = *receive = (struct record_key){.count = 0};
    handshake_session_keys(handshake, send->bytes, receive->bytes);
    if (make_cipher(send, RECORD_SEAL) && make_cipher(receive, RECORD_OPEN))
        return HVD_OK;
    record_keys_wipe(send, receive);
    return error_set(err, HVD_ERR_NO_MEMORY,
                     "no memory to encrypt a connection, or libcrypto of this node refuses AES-256-GCM; see "
                     "`openssl speed -evp aes-256-gcm`");
}

void record_prepare(void)
{
    struct record_key key = {.count = 0};
    make_cipher(&key, RECORD_SEAL); /* who needs it will tell if it fails */
    EVP_CIPHER_CTX_free(key.cipher);
}

void record_keys_wipe(struct record_key *send, struct record_key *receive)
{
    EVP_CIPHER_CTX_free(send->cipher);
    EVP_CIPHER_CTX_free(receive->cipher);
    sodium_memzero(send, sizeof(*send));
    sodium_memzero(receive, sizeof(*receive));
}

/* Both ends replace the key after the same record, so that they need not speak of it. */
static bool replace_key(struct record_key *key)
{
    static const char purpose[] = "hvd: the next key of a connection";
    unsigned char next[HANDSHAKE_KEY_BYTES];
    crypto_generichash(next, sizeof(next), (const unsigned char *)purpose, sizeof(purpose), key->bytes,
                       sizeof(key->bytes));
    memcpy(key->bytes, next, sizeof(next));
    sodium_memzero(next, sizeof(next));
    return EVP_CipherInit_ex(key->cipher, NULL, NULL, key->bytes, NULL, -1) == 1;
}

/* Get ready for the next record: its nonce is its number. */
static bool next_record(struct record_key *key)
{
    unsigned char nonce[NONCE_BYTES] = {0};
    struct encoder encoder = {nonce, NONCE_BYTES, false};
    if (key->count > 0 && key->count % RECORD_KEY_LASTS == 0 && !replace_key(key))
        return false;
    encode_number(&encoder, key->count++, 8);
    return EVP_CipherInit_ex(key->cipher, NULL, NULL, NULL, nonce, -1) == 1;
}

/* ---- Records ---- */

/* Encrypt or decrypt [length] bytes of the record that is next. */
static bool crypt_record(struct record_key *key, const unsigned char *head, const void *from, void *to,
                         size_t length)
{
    int done = 0;
    return next_record(key) && EVP_CipherUpdate(key->cipher, NULL, &done, head, RECORD_HEAD_BYTES) == 1 &&
           EVP_CipherUpdate(key->cipher, to, &done, from, (int)length) == 1 && (size_t)done == length;
}

bool record_seal(struct record_key *key, unsigned char *record, const void *contents, size_t length)
{
    int done = 0;
    unsigned char *to = record + RECORD_HEAD_BYTES;
    struct encoder encoder = {record, RECORD_HEAD_BYTES, false};
    encode_number(&encoder, length, RECORD_HEAD_BYTES);
    return crypt_record(key, record, contents, to, length) &&
           EVP_CipherFinal_ex(key->cipher, to + length, &done) == 1 &&
           EVP_CIPHER_CTX_ctrl(key->cipher, EVP_CTRL_AEAD_GET_TAG, RECORD_TAG_BYTES, to + length) == 1;
}

uint64_t record_announces(const unsigned char *record)
{
    struct decoder decoder = {record, RECORD_HEAD_BYTES, false};
    return decode_number(&decoder, RECORD_HEAD_BYTES);
}

bool record_open(struct record_key *key, const unsigned char *record, void *contents, size_t length)
{
    int done = 0;
    unsigned char tag[RECORD_TAG_BYTES];
    const unsigned char *from = record + RECORD_HEAD_BYTES;
    memcpy(tag, from + length, sizeof(tag));
    return crypt_record(key, record, from, contents, length) &&
           EVP_CIPHER_CTX_ctrl(key->cipher, EVP_CTRL_AEAD_SET_TAG, RECORD_TAG_BYTES, tag) == 1 &&
           EVP_CipherFinal_ex(key->cipher, tag, &done) == 1;
}
