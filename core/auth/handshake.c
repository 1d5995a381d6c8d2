/* handshake.c: how the two ends of a connection prove to each other that they hold the key of the job. */
#include "auth/handshake.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/descriptors.h"

#define CHALLENGE_MAGIC UINT32_C(0x63647668) /* "hvdc" */
#define RESPONSE_MAGIC  UINT32_C(0x61647668) /* "hvda" */

/* Where each message ends in the transcript. */
#define CHALLENGE_END    HANDSHAKE_CHALLENGE_BYTES
#define RESPONSE_END     (CHALLENGE_END + HANDSHAKE_RESPONSE_BYTES)
#define CONFIRMATION_END (RESPONSE_END + HANDSHAKE_CONFIRMATION_BYTES)

_Static_assert(crypto_auth_KEYBYTES == HANDSHAKE_KEY_BYTES, "the key of a job is a key for crypto_auth");
_Static_assert(crypto_auth_BYTES == HANDSHAKE_MAC_BYTES, "a MAC of crypto_auth fits");
_Static_assert(HANDSHAKE_KEY_BYTES == HANDSHAKE_MAC_BYTES, "a MAC serves as a session key");

/* The use of a keyed hash of the transcript. Two uses never give the same bytes. */
enum label {
    LABEL_RESPONSE = 'r',
    LABEL_CONFIRMATION = 'c',
    LABEL_CONNECTOR_KEY = 'k', /* encrypts what the connector sends after the handshake */
    LABEL_ACCEPTOR_KEY = 'K'
};

/* The transcript's length when a state's message is complete. */
static const size_t message_ends[HANDSHAKE_STATE_COUNT] = {
    [HANDSHAKE_CONNECTING] = 0,
    [HANDSHAKE_CHALLENGE] = CHALLENGE_END,
    [HANDSHAKE_RESPONSE] = RESPONSE_END,
    [HANDSHAKE_ADMISSION] = RESPONSE_END,
    [HANDSHAKE_CONFIRMATION] = CONFIRMATION_END,
};

/* ---- Bytes ---- */

/* The keyed hash of the first [length] bytes of the transcript. */
static void compute_mac(const struct handshake *handshake, enum label label, size_t length,
                        unsigned char mac[HANDSHAKE_MAC_BYTES])
{
    unsigned char labelled[1 + HANDSHAKE_ALL_BYTES];
    struct encoder encoder = {labelled, sizeof(labelled), false};
    encode_number(&encoder, label, 1);
    encode_raw(&encoder, handshake->transcript, length);
    crypto_auth(mac, labelled, sizeof(labelled) - encoder.left, handshake->key);
}

/* Is the MAC at offset [length] the keyed hash of the bytes before it? In constant time. */
static bool mac_is_right(const struct handshake *handshake, enum label label, size_t length)
{
    unsigned char expected[HANDSHAKE_MAC_BYTES];
    compute_mac(handshake, label, length, expected);
    return sodium_memcmp(expected, handshake->transcript + length, sizeof(expected)) == 0;
}

static void encode_header(struct encoder *encoder, uint32_t magic)
{
    encode_number(encoder, magic, 4);
    encode_number(encoder, HANDSHAKE_VERSION, 2);
}

/* Returns NULL, or what is wrong with the header. */
static const char *check_header(struct decoder *decoder, uint32_t magic)
{
    uint64_t magic_of_peer = decode_number(decoder, 4);
    uint64_t version_of_peer = decode_number(decoder, 2);
    if (decoder->failed || magic_of_peer != magic)
        return "does not speak hvd's protocol";
    return version_of_peer == HANDSHAKE_VERSION ? NULL : "speaks another version of hvd's protocol";
}

static void encode_nonce(struct encoder *encoder)
{
    unsigned char nonce[HANDSHAKE_NONCE_BYTES];
    randombytes_buf(nonce, sizeof(nonce));
    encode_raw(encoder, nonce, sizeof(nonce));
}

static void make_challenge(struct handshake *handshake)
{
    struct encoder encoder = {handshake->transcript, HANDSHAKE_CHALLENGE_BYTES, false};
    encode_header(&encoder, CHALLENGE_MAGIC);
    encode_nonce(&encoder);
}

static const char *check_challenge(const struct handshake *handshake)
{
    struct decoder decoder = {handshake->transcript, HANDSHAKE_CHALLENGE_BYTES, false};
    return check_header(&decoder, CHALLENGE_MAGIC);
}

static void make_response(struct handshake *handshake)
{
    const struct handshake_claim *claim = &handshake->claim;
    unsigned char *mac = handshake->transcript + RESPONSE_END - HANDSHAKE_MAC_BYTES;
    struct encoder encoder = {handshake->transcript + CHALLENGE_END, HANDSHAKE_RESPONSE_BYTES, false};
    encode_header(&encoder, RESPONSE_MAGIC);
    encode_number(&encoder, claim->purpose, 2);
    encode_number(&encoder, claim->tag, 4);
    encode_number(&encoder, claim->epoch, 4);
    encode_number(&encoder, claim->from, 4);
    encode_number(&encoder, claim->to, 4);
    encode_number(&encoder, claim->size, 4);
    encode_nonce(&encoder);
    compute_mac(handshake, LABEL_RESPONSE, RESPONSE_END - HANDSHAKE_MAC_BYTES, mac);
}

static const char *check_response(const struct handshake *handshake)
{
    struct decoder decoder = {handshake->transcript + CHALLENGE_END, HANDSHAKE_RESPONSE_BYTES, false};
    return check_header(&decoder, RESPONSE_MAGIC);
}

/* Decode the claim of a response whose MAC was right. */
static void decode_claim(const struct handshake *handshake, struct handshake_claim *claim)
{
    struct decoder decoder = {handshake->transcript + CHALLENGE_END, HANDSHAKE_RESPONSE_BYTES, false};
    check_header(&decoder, RESPONSE_MAGIC);
    claim->purpose = (uint16_t)decode_number(&decoder, 2);
    claim->tag = (uint32_t)decode_number(&decoder, 4);
    claim->epoch = (uint32_t)decode_number(&decoder, 4);
    claim->from = (uint32_t)decode_number(&decoder, 4);
    claim->to = (uint32_t)decode_number(&decoder, 4);
    claim->size = (uint32_t)decode_number(&decoder, 4);
}

/* ---- The socket ---- */

static enum handshake_result fail_key(struct handshake *handshake)
{
    handshake->why = "does not hold the key of this job";
    handshake->foreign = handshake->wrong_key = true;
    return HANDSHAKE_FAILED;
}

static enum handshake_result fail_foreign(struct handshake *handshake, const char *why)
{
    handshake->why = why;
    handshake->foreign = true;
    return HANDSHAKE_FAILED;
}

/* [error] is an errno, or 0 if the other end closed the connection. */
static enum handshake_result fail_connection(struct handshake *handshake, int error)
{
    handshake->why = error != 0 ? strerror(error) : "closed the connection";
    handshake->error = error;
    return HANDSHAKE_FAILED;
}

/* Does this end send the message of its state? */
static bool is_sender(const struct handshake *handshake)
{
    return handshake->connector == (handshake->state == HANDSHAKE_RESPONSE);
}

/* Send or receive the rest of the state's message, and not a byte more: the bytes after the last message
 * belong to the owner of the socket. */
static enum handshake_result transfer_message(struct handshake *handshake)
{
    while (handshake->length < message_ends[handshake->state]) {
        unsigned char *at = handshake->transcript + handshake->length;
        size_t left = message_ends[handshake->state] - handshake->length;
        bool sends = is_sender(handshake);
        /* on a packet socket MSG_TRUNC returns the packet's full length; on a stream it would discard the
         * bytes */
        int flags = MSG_DONTWAIT | (handshake->keeps_packets ? MSG_TRUNC : 0);
        ssize_t moved = sends ? send(handshake->fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(handshake->fd, at, left, flags);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return errno == EAGAIN ? HANDSHAKE_WAITS : fail_connection(handshake, errno);
        if (moved == 0)
            return fail_connection(handshake, 0);
        if (handshake->keeps_packets && (size_t)moved != left)
            return fail_foreign(handshake, "does not speak hvd's protocol");
        handshake->length += (size_t)moved;
    }
    return HANDSHAKE_DONE;
}

/* ---- The states ---- */

static void begin_handshake(struct handshake *handshake, const unsigned char *key, int fd)
{
    int64_t now_us = clock_us();
    int type = SOCK_STREAM;
    socklen_t length = sizeof(type);
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length);
    *handshake = (struct handshake){.fd = fd,
                                    .keeps_packets = type != SOCK_STREAM,
                                    .begun_us = now_us,
                                    .deadline_us = now_us + HANDSHAKE_TIMEOUT_US,
                                    .key = key};
}

void handshake_connect(struct handshake *handshake, const unsigned char *key,
                       const struct handshake_claim *claim, int fd)
{
    begin_handshake(handshake, key, fd);
    handshake->connector = true;
    handshake->claim = *claim;
    handshake->state = HANDSHAKE_CONNECTING;
}

void handshake_accept(struct handshake *handshake, const unsigned char *key, int fd)
{
    begin_handshake(handshake, key, fd);
    handshake->state = HANDSHAKE_CHALLENGE;
    make_challenge(handshake);
}

short handshake_poll_events(const struct handshake *handshake)
{
    if (handshake->state == HANDSHAKE_CONNECTING)
        return POLLOUT;
    bool complete = handshake->length >= message_ends[handshake->state];
    return !complete && is_sender(handshake) ? POLLOUT : POLLIN;
}

static enum handshake_result on_connected(struct handshake *handshake)
{
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(handshake->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (error != 0)
        return fail_connection(handshake, error);
    handshake->state = HANDSHAKE_CHALLENGE;
    return handshake_advance(handshake);
}

static enum handshake_result on_challenge(struct handshake *handshake)
{
    const char *why = handshake->connector ? check_challenge(handshake) : NULL;
    if (why != NULL)
        return fail_foreign(handshake, why);
    if (handshake->connector)
        make_response(handshake);
    handshake->state = HANDSHAKE_RESPONSE;
    return handshake_advance(handshake);
}

static enum handshake_result on_response(struct handshake *handshake)
{
    if (handshake->connector) {
        handshake->state = HANDSHAKE_CONFIRMATION;
        return handshake_advance(handshake);
    }
    const char *why = check_response(handshake);
    if (why != NULL)
        return fail_foreign(handshake, why);
    if (!mac_is_right(handshake, LABEL_RESPONSE, RESPONSE_END - HANDSHAKE_MAC_BYTES))
        return fail_key(handshake);
    decode_claim(handshake, &handshake->claim);
    handshake->state = HANDSHAKE_ADMISSION;
    return HANDSHAKE_CLAIMED;
}

static enum handshake_result on_admission(struct handshake *handshake)
{
    (void)handshake;
    return HANDSHAKE_CLAIMED;
}

static enum handshake_result on_confirmation(struct handshake *handshake)
{
    if (handshake->connector)
        return mac_is_right(handshake, LABEL_CONFIRMATION, RESPONSE_END) ? HANDSHAKE_DONE
                                                                         : fail_key(handshake);
    /* Has the connector closed its end? One that gave up while it waited has, and it connects again. */
    char byte;
    ssize_t got = recv(handshake->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0)
        return fail_connection(handshake, 0);
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        return fail_connection(handshake, errno);
    return HANDSHAKE_DONE;
}

/* What happens in each state once its message is complete. */
static enum handshake_result (*const handlers[HANDSHAKE_STATE_COUNT])(struct handshake *handshake) = {
    [HANDSHAKE_CONNECTING] = on_connected,      [HANDSHAKE_CHALLENGE] = on_challenge,
    [HANDSHAKE_RESPONSE] = on_response,         [HANDSHAKE_ADMISSION] = on_admission,
    [HANDSHAKE_CONFIRMATION] = on_confirmation,
};

enum handshake_result handshake_advance(struct handshake *handshake)
{
    enum handshake_result result = transfer_message(handshake);
    return result == HANDSHAKE_DONE ? handlers[handshake->state](handshake) : result;
}

void handshake_admit(struct handshake *handshake)
{
    compute_mac(handshake, LABEL_CONFIRMATION, RESPONSE_END, handshake->transcript + RESPONSE_END);
    handshake->state = HANDSHAKE_CONFIRMATION;
}

void handshake_session_keys(const struct handshake *handshake, unsigned char *send_key,
                            unsigned char *receive_key)
{
    compute_mac(handshake, LABEL_CONNECTOR_KEY, RESPONSE_END, handshake->connector ? send_key : receive_key);
    compute_mac(handshake, LABEL_ACCEPTOR_KEY, RESPONSE_END, handshake->connector ? receive_key : send_key);
}

int handshake_oldest(const struct handshake *first, size_t stride, int count)
{
    int64_t begun_us = INT64_MAX;
    int oldest = -1;
    for (int i = 0; i < count; i++) {
        const struct handshake *handshake = (const void *)((const char *)first + (size_t)i * stride);
        if (handshake->fd >= 0 && !handshake->connector && handshake->begun_us < begun_us) {
            begun_us = handshake->begun_us;
            oldest = i;
        }
    }
    return oldest;
}

void handshake_close(struct handshake *handshake)
{
    descriptors_close(&handshake->fd);
}

const char *handshake_stray_reason(const struct handshake_claim *claim, uint32_t epoch, int rank)
{
    if (claim->epoch != epoch)
        return "is of another start of this job";
    return claim->to == (uint32_t)rank ? NULL : "looked for another rank";
}
