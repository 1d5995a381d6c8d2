/* secure_channel.c: one TCP connection of the env provider: handshake by the job key, then sealed frames. */
#include "pmix_shim/secure_channel.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC       UINT32_C(0x31647668) /* "hvd1" */
#define VERSION     1
#define NONCE_BYTES 32
#define PROOF_BYTES 32

/* hello: magic, version, epoch, size, rank, nonce, proof. welcome: magic, version, nonce, proof. Words are
 * little-endian; a proof is a hash under the job key over what came before it, that of welcome over all of
 * hello too. */
#define HELLO_WORDS   5
#define HELLO_PLAIN   (4 * HELLO_WORDS + NONCE_BYTES)
#define WELCOME_WORDS 2
#define WELCOME_PLAIN (4 * WELCOME_WORDS + NONCE_BYTES)
#define WELCOME_BYTES (WELCOME_PLAIN + PROOF_BYTES)

/* A frame: its length as one word, then the sealed message, in which that word is vouched for too. */
#define SEAL_BYTES crypto_aead_chacha20poly1305_ietf_ABYTES
#define FRAME_HEAD 4

_Static_assert(HELLO_PLAIN + PROOF_BYTES == SECURE_CHANNEL_HELLO_BYTES,
               "the hello has the length that the header says");

static void put_words(unsigned char *to, const uint32_t *words, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t word = htole32(words[i]);
        memcpy(to + 4 * i, &word, 4);
    }
}

static uint32_t get_word(const unsigned char *from)
{
    uint32_t word;
    memcpy(&word, from, 4);
    return le32toh(word);
}

/* A hash under the job key over a label and two pieces, either of which may be empty. */
static void digest(const struct secure_channel *channel, char label, const unsigned char *welcome,
                   size_t welcome_length, unsigned char *out, size_t out_bytes)
{
    crypto_generichash_state state;
    size_t hello_length = label == 'h' ? HELLO_PLAIN : SECURE_CHANNEL_HELLO_BYTES;
    crypto_generichash_init(&state, channel->key, SECURE_CHANNEL_KEY_BYTES, out_bytes);
    crypto_generichash_update(&state, (const unsigned char *)&label, 1);
    crypto_generichash_update(&state, channel->greeting, hello_length);
    crypto_generichash_update(&state, welcome, welcome_length);
    crypto_generichash_final(&state, out, out_bytes);
}

/* One key for each direction, drawn from both nonces. */
static void make_keys(struct secure_channel *channel, const unsigned char *welcome, unsigned char *from_hello,
                      unsigned char *from_welcome)
{
    unsigned char both[2 * SECURE_CHANNEL_KEY_BYTES];
    digest(channel, 's', welcome, WELCOME_PLAIN, both, sizeof(both));
    memcpy(from_hello, both, SECURE_CHANNEL_KEY_BYTES);
    memcpy(from_welcome, both + SECURE_CHANNEL_KEY_BYTES, SECURE_CHANNEL_KEY_BYTES);
    sodium_memzero(both, sizeof(both));
}

void secure_channel_init(struct secure_channel *channel, int fd, const unsigned char *key)
{
    *channel = (struct secure_channel){.fd = fd, .key = key};
}

void secure_channel_fini(struct secure_channel *channel)
{
    if (channel->fd >= 0)
        close(channel->fd);
    free(channel->out.bytes);
    free(channel->frame);
    sodium_memzero(channel, sizeof(*channel));
    channel->fd = -1;
}

/* Read until [want] bytes are in [to]. */
static int fill(struct secure_channel *channel, unsigned char *to, size_t want, struct hvd_error *err)
{
    while (channel->have < want) {
        ssize_t got = recv(channel->fd, to + channel->have, want - channel->have, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HVD_IN_PROGRESS;
        if (got < 0)
            return error_set_errno(err, "receiving");
        if (got == 0)
            return error_set(err, HVD_ERR_RANK_LOST, "it closed the connection");
        channel->have += (size_t)got;
    }
    return HVD_OK;
}

int secure_channel_flush(struct secure_channel *channel, struct hvd_error *err)
{
    struct send_buffer *out = &channel->out;
    while (out->sent < out->length) {
        ssize_t put =
            send(channel->fd, out->bytes + out->sent, out->length - out->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HVD_IN_PROGRESS;
        if (put < 0)
            return error_set_errno(err, "sending");
        out->sent += (size_t)put;
    }
    out->length = 0;
    out->sent = 0;
    return HVD_OK;
}

/* Room for [more] bytes at the end of the queue; NULL where memory is out. */
static unsigned char *extend(struct send_buffer *out, size_t more)
{
    unsigned char *bytes = realloc(out->bytes, out->length + more);
    if (bytes == NULL)
        return NULL;
    out->bytes = bytes;
    return bytes + out->length;
}

static int queue(struct secure_channel *channel, const unsigned char *bytes, size_t length,
                 struct hvd_error *err)
{
    unsigned char *to = extend(&channel->out, length);
    if (to == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    memcpy(to, bytes, length);
    channel->out.length += length;
    int rc = secure_channel_flush(channel, err);
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

int secure_channel_connect(struct secure_channel *channel, const struct secure_channel_id *id,
                           struct hvd_error *err)
{
    unsigned char *hello = channel->greeting;
    put_words(hello, (const uint32_t[]){MAGIC, VERSION, id->epoch, id->size, id->rank}, HELLO_WORDS);
    randombytes_buf(hello + 4 * HELLO_WORDS, NONCE_BYTES);
    digest(channel, 'h', NULL, 0, hello + HELLO_PLAIN, PROOF_BYTES);
    return queue(channel, hello, SECURE_CHANNEL_HELLO_BYTES, err);
}

static int check_head(const unsigned char *words, struct hvd_error *err)
{
    if (get_word(words) != MAGIC)
        return error_set(err, HVD_ERR_INVALID, "it does not speak hvd's wire-up");
    if (get_word(words + 4) != VERSION)
        return error_set(err, HVD_ERR_INVALID, "it speaks version %u of the wire-up, this hvd speaks %u",
                         get_word(words + 4), VERSION);
    return HVD_OK;
}

int secure_channel_accept(struct secure_channel *channel, struct secure_channel_id *id, struct hvd_error *err)
{
    unsigned char *hello = channel->greeting;
    unsigned char welcome[WELCOME_BYTES];
    unsigned char proof[PROOF_BYTES];
    int rc = fill(channel, hello, SECURE_CHANNEL_HELLO_BYTES, err);
    if (rc == HVD_OK)
        rc = check_head(hello, err);
    if (rc != HVD_OK)
        return rc;
    digest(channel, 'h', NULL, 0, proof, sizeof(proof));
    if (sodium_memcmp(proof, hello + HELLO_PLAIN, PROOF_BYTES) != 0)
        return error_set(err, HVD_ERR_INVALID, "it does not hold this job's HVD_JOB_KEY");
    if (get_word(hello + 8) != id->epoch)
        return error_set(err, HVD_ERR_INVALID, "it is of HVD_EPOCH=%u, this job of %u", get_word(hello + 8),
                         id->epoch);
    channel->have = 0;
    id->size = get_word(hello + 12);
    id->rank = get_word(hello + 16);
    put_words(welcome, (const uint32_t[]){MAGIC, VERSION}, WELCOME_WORDS);
    randombytes_buf(welcome + 4 * WELCOME_WORDS, NONCE_BYTES);
    digest(channel, 'w', welcome, WELCOME_PLAIN, welcome + WELCOME_PLAIN, PROOF_BYTES);
    make_keys(channel, welcome, channel->receive_key, channel->send_key);
    return queue(channel, welcome, sizeof(welcome), err);
}

int secure_channel_await_welcome(struct secure_channel *channel, struct hvd_error *err)
{
    unsigned char proof[PROOF_BYTES];
    unsigned char *welcome = channel->frame;
    if (welcome == NULL) {
        welcome = malloc(WELCOME_BYTES);
        if (welcome == NULL)
            return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
        channel->frame = welcome;
        channel->frame_room = WELCOME_BYTES;
    }
    int rc = secure_channel_flush(channel, err);
    if (rc == HVD_OK)
        rc = fill(channel, welcome, WELCOME_BYTES, err);
    if (rc == HVD_OK)
        rc = check_head(welcome, err);
    if (rc != HVD_OK)
        return rc;
    digest(channel, 'w', welcome, WELCOME_PLAIN, proof, sizeof(proof));
    if (sodium_memcmp(proof, welcome + WELCOME_PLAIN, PROOF_BYTES) != 0)
        return error_set(err, HVD_ERR_INVALID, "it does not hold this job's HVD_JOB_KEY");
    channel->have = 0;
    make_keys(channel, welcome, channel->send_key, channel->receive_key);
    return HVD_OK;
}

/* The counter of frames as a nonce. */
static void make_nonce(uint64_t count, unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES])
{
    uint64_t number = htole64(count);
    memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
    memcpy(nonce, &number, sizeof(number));
}

int secure_channel_send(struct secure_channel *channel, const void *message, size_t length,
                        struct hvd_error *err)
{
    unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    if (length > SECURE_CHANNEL_MESSAGE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "wire-up: a message of %zu bytes; expected at most %d", length,
                         SECURE_CHANNEL_MESSAGE_BYTES);
    unsigned char *to = extend(&channel->out, FRAME_HEAD + length + SEAL_BYTES);
    if (to == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    put_words(to, (const uint32_t[]){(uint32_t)length}, 1);
    make_nonce(channel->send_count++, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(to + FRAME_HEAD, NULL, message, length, to, FRAME_HEAD, NULL,
                                              nonce, channel->send_key);
    channel->out.length += FRAME_HEAD + length + SEAL_BYTES;
    int rc = secure_channel_flush(channel, err);
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* Make the frame's memory [want] bytes long at least. */
static int reserve(struct secure_channel *channel, size_t want, struct hvd_error *err)
{
    if (channel->frame_room >= want)
        return HVD_OK;
    unsigned char *frame = realloc(channel->frame, want);
    if (frame == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    channel->frame = frame;
    channel->frame_room = want;
    return HVD_OK;
}

int secure_channel_receive(struct secure_channel *channel, const unsigned char **messagep, size_t *lengthp,
                           struct hvd_error *err)
{
    unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    int rc = reserve(channel, FRAME_HEAD, err);
    if (rc == HVD_OK)
        rc = fill(channel, channel->frame, FRAME_HEAD, err);
    if (rc != HVD_OK)
        return rc;
    size_t length = get_word(channel->frame);
    if (length > SECURE_CHANNEL_MESSAGE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "it announces a message of %zu bytes; expected at most %d",
                         length, SECURE_CHANNEL_MESSAGE_BYTES);
    size_t whole = FRAME_HEAD + length + SEAL_BYTES;
    rc = reserve(channel, whole, err);
    if (rc == HVD_OK)
        rc = fill(channel, channel->frame, whole, err);
    if (rc != HVD_OK)
        return rc;
    unsigned char *sealed = channel->frame + FRAME_HEAD;
    make_nonce(channel->receive_count++, nonce);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(sealed, NULL, NULL, sealed, length + SEAL_BYTES,
                                                  channel->frame, FRAME_HEAD, nonce,
                                                  channel->receive_key) != 0)
        return error_set(err, HVD_ERR_INVALID, "it sent a message that is not sealed with this job's key");
    channel->have = 0;
    *messagep = sealed;
    *lengthp = length;
    return HVD_OK;
}
