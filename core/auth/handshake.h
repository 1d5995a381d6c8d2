/* handshake.h: how the two ends of a connection prove to each other that they hold the key of the job. One
 * state machine over any connected socket, of a stream or of packets; it never blocks.
 *
 *   acceptor -> connector   challenge      a nonce
 *   connector -> acceptor   response       its claim: who it is, whom it wants, what for; a nonce, a MAC
 *   acceptor -> connector   confirmation   a MAC, once the acceptor's owner has admitted the claim
 *
 * Every message has a fixed length, and is one packet where the socket keeps packets. A MAC is a keyed hash
 * of all messages before it, and so of both nonces, under the label of its direction: it cannot be replayed
 * on another connection nor sent back on its own. The acceptor sends nothing but a nonce to a peer that has
 * not proved itself.
 *
 * The handshake knows a key and a socket; net/endpoint.c, node/attach*.c and pmix_shim/env_fence_*.c, which
 * own one each, decide which claims they admit. */
#ifndef AUTH_HANDSHAKE_H
#define AUTH_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDSHAKE_VERSION            4 /* of everything that ranks say to each other */
#define HANDSHAKE_KEY_BYTES          32
#define HANDSHAKE_NONCE_BYTES        32
#define HANDSHAKE_MAC_BYTES          32
#define HANDSHAKE_CHALLENGE_BYTES    (6 + HANDSHAKE_NONCE_BYTES)
#define HANDSHAKE_RESPONSE_BYTES     (28 + HANDSHAKE_NONCE_BYTES + HANDSHAKE_MAC_BYTES)
#define HANDSHAKE_CONFIRMATION_BYTES HANDSHAKE_MAC_BYTES
#define HANDSHAKE_ALL_BYTES \
    (HANDSHAKE_CHALLENGE_BYTES + HANDSHAKE_RESPONSE_BYTES + HANDSHAKE_CONFIRMATION_BYTES)

/* How long one may take: a peer that runs answers at once. */
#define HANDSHAKE_TIMEOUT_US INT64_C(5000000)

/* What a connection is for. Smaller numbers are those of enum endpoint_purpose. */
enum { HANDSHAKE_PURPOSE_ATTACH = 256, HANDSHAKE_PURPOSE_FENCE = 257 };

/* What the connector says of itself. */
struct handshake_claim {
    uint16_t purpose;
    uint32_t tag;      /* tells connections of one purpose between the same two ranks apart */
    uint32_t epoch;    /* the start of the job that it belongs to */
    uint32_t from, to; /* ranks */
    uint32_t size;     /* ranks of the job as the connector knows it; 0 where the acceptor knows it anyway */
};

enum handshake_state {
    HANDSHAKE_CONNECTING,   /* connector: until the kernel has connected */
    HANDSHAKE_CHALLENGE,    /* the message that is being sent or received */
    HANDSHAKE_RESPONSE,     /* likewise */
    HANDSHAKE_ADMISSION,    /* acceptor: until handshake_admit */
    HANDSHAKE_CONFIRMATION, /* the message that is being sent or received */
    HANDSHAKE_STATE_COUNT
};

enum handshake_result {
    HANDSHAKE_WAITS,   /* for its socket: handshake_poll_events */
    HANDSHAKE_CLAIMED, /* acceptor: look at the claim, then call handshake_admit or handshake_close */
    HANDSHAKE_DONE,    /* both ends hold the key: take fd, and set it to -1 */
    HANDSHAKE_FAILED   /* why, foreign and error say for which reason */
};

struct handshake {
    int fd; /* -1: none */
    enum handshake_state state;
    bool connector;     /* which of the two ends this is */
    bool keeps_packets; /* the kind of socket */
    int64_t
        deadline_us; /* the owner gives up then; HANDSHAKE_TIMEOUT_US after the start unless it is changed */
    const unsigned char *key;
    struct handshake_claim claim; /* what the connector says; at the acceptor from HANDSHAKE_CLAIMED on */
    const char *why;              /* a phrase that follows "the other end" */
    bool foreign;                 /* the other end is not one of ours; else the connection failed */
    bool wrong_key;               /* foreign because it has another key */
    int error;                    /* errno with which it failed; 0: the other end closed it */
    unsigned char transcript[HANDSHAKE_ALL_BYTES]; /* the messages so far */
    size_t length;                                 /* of the transcript */
};

/* Begin at the end that connects, on a non-blocking socket whose connect() has begun or is done. [key], of
 * HANDSHAKE_KEY_BYTES, must stay valid until the handshake is closed or done. Takes [fd]. */
void handshake_connect(struct handshake *handshake, const unsigned char *key,
                       const struct handshake_claim *claim, int fd);

/* Begin at the end that accepted the non-blocking socket [fd], which is taken. */
void handshake_accept(struct handshake *handshake, const unsigned char *key, int fd);

/* What poll should wait for. */
short handshake_poll_events(const struct handshake *handshake);

/* Go as far as possible without blocking. Call it when poll has said so. Bytes that follow the last message
 * stay in the socket. */
enum handshake_result handshake_advance(struct handshake *handshake);

/* The owner admits the claim: the confirmation may be sent. Call handshake_advance next. */
void handshake_admit(struct handshake *handshake);

/* After HANDSHAKE_DONE: a key for each direction, of HANDSHAKE_KEY_BYTES, which only this connection has. */
void handshake_session_keys(const struct handshake *handshake, unsigned char *send_key,
                            unsigned char *receive_key);

/* Close the socket, if any. */
void handshake_close(struct handshake *handshake);

/* Why a peer that holds the key is not meant for [rank] in [epoch]; NULL where it is. */
const char *handshake_stray_reason(const struct handshake_claim *claim, uint32_t epoch, int rank);

#endif
