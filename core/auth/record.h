/* record.h: sealed records: what one end of a connection encrypts and protects against changes, and only the
 * other end can open.
 *
 * A record is the length of its contents (4 bytes, little-endian), the contents encrypted, and a tag of 16
 * bytes that nobody can compute who does not hold the key of that direction; it covers the length as well.
 * The count of records is the nonce: it never repeats under one key, and a record that is left out, repeated
 * or moved is found out. After so many records both ends go on with a key made from the last. The length is
 * not hidden. */
#ifndef AUTH_RECORD_H
#define AUTH_RECORD_H

#include "auth/handshake.h"
#include "base/status.h"

#define RECORD_HEAD_BYTES  4
#define RECORD_TAG_BYTES   16
#define RECORD_EXTRA_BYTES (RECORD_HEAD_BYTES + RECORD_TAG_BYTES) /* of a record, besides the contents */

/* Both ends replace a key after so many records: the more GCM encrypts with one, the more an attacker learns
 * who has them all. */
#define RECORD_KEY_LASTS (UINT64_C(1) << 20)

/* One direction of a connection. */
struct record_key {
    unsigned char bytes[HANDSHAKE_KEY_BYTES];
    struct evp_cipher_ctx_st *cipher; /* of libcrypto, ready for the next record */
    uint64_t count;                   /* of records so far */
};

/* The keys of a connection whose handshake is done, for records to send and to receive. HVD_ERR_NO_MEMORY if
 * libcrypto cannot use them; then there is nothing to wipe. */
int record_keys(const struct handshake *handshake, struct record_key *send, struct record_key *receive,
                struct hvd_error *err);

/* libcrypto sets itself up for the first keys of a process, which takes milliseconds: do that now. */
void record_prepare(void);

/* Zeroed keys are fine. */
void record_keys_wipe(struct record_key *send, struct record_key *receive);

/* Make the next record of [length] bytes of [contents], which may lie in the record already, behind its
 * head. False if libcrypto fails: nothing of the record may be sent then. */
bool record_seal(struct record_key *key, unsigned char *record, const void *contents, size_t length);

/* The length of the contents that a record's head announces, which is not proved before it is opened. */
uint64_t record_announces(const unsigned char *record);

/* Open the next record, whose contents have [length] bytes, into [contents], which may be where they lie.
 * False: the other end has not sealed it so. */
bool record_open(struct record_key *key, const unsigned char *record, void *contents, size_t length);

#endif
