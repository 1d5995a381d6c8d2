/* handshake.h: how the two ends of a connection prove to each other that they hold the job's key. One state
 * machine over any connected socket, of a stream or of packets; it never blocks.
 *
 *   acceptor -> connector   challenge      a nonce
 *   connector -> acceptor   response       its claim: who it is, whom it wants, what for; a nonce, a MAC
 *   acceptor -> connector   confirmation   a MAC, once the acceptor's owner has admitted the claim
 *
 * Every message has a fixed length, and is one packet if the socket keeps packets. A MAC is a keyed hash
 * of all messages before it, and so of both nonces, under the label of its direction: it can neither be
 * replayed on another connection nor be reflected on its own. The acceptor sends nothing but a nonce to a
 * peer that has not proved that it holds the key.
 *
 * The folder auth promises the others that a connection whose handshake is done leads to a process that
 * holds the job's key, and that both ends then derive the same session keys. The handshake knows only a
 * key and a socket. Its owners are net/establishment.c, node/attach*.c and pmix_shim/env_fence_*.c; each
 * decides which claims it admits. */
#ifndef AUTH_HANDSHAKE_H
#define AUTH_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDSHAKE_VERSION            9 /* of all messages between ranks */
#define HANDSHAKE_KEY_BYTES          32
#define HANDSHAKE_NONCE_BYTES        32
#define HANDSHAKE_MAC_BYTES          32
#define HANDSHAKE_CHALLENGE_BYTES    (6 + HANDSHAKE_NONCE_BYTES)
#define HANDSHAKE_RESPONSE_BYTES     (28 + HANDSHAKE_NONCE_BYTES + HANDSHAKE_MAC_BYTES)
#define HANDSHAKE_CONFIRMATION_BYTES HANDSHAKE_MAC_BYTES
#define HANDSHAKE_ALL_BYTES \
    (HANDSHAKE_CHALLENGE_BYTES + HANDSHAKE_RESPONSE_BYTES + HANDSHAKE_CONFIRMATION_BYTES)

/* The time limit of one handshake: a peer that runs answers at once. */
#define HANDSHAKE_TIMEOUT_US INT64_C(5000000)

/* If there is no room for another connection, the oldest handshake gives way, but not within this time. */
#define HANDSHAKE_PROOF_US INT64_C(100000)

/* The purpose of a connection. Smaller numbers are those of enum endpoint_purpose. */
enum { HANDSHAKE_PURPOSE_ATTACH = 256, HANDSHAKE_PURPOSE_FENCE = 257, HANDSHAKE_PURPOSE_AGENT = 258 };

/* What the connector claims to be. */
struct handshake_claim {
    uint16_t purpose;
    uint32_t tag;      /* distinguishes connections of one purpose between the same two ranks */
    uint32_t epoch;    /* the number of the job's start to which it belongs */
    uint32_t from, to; /* ranks */
    uint32_t size;     /* ranks in the job as the connector knows it; 0 if the acceptor need not check it */
};

enum handshake_state {
    HANDSHAKE_CONNECTING,   /* connector: waits until the kernel has connected */
    HANDSHAKE_CHALLENGE,    /* the message that is being sent or received */
    HANDSHAKE_RESPONSE,     /* likewise */
    HANDSHAKE_ADMISSION,    /* acceptor: waits for handshake_admit */
    HANDSHAKE_CONFIRMATION, /* the message that is being sent or received */
    HANDSHAKE_STATE_COUNT
};

enum handshake_result {
    HANDSHAKE_WAITS,   /* it waits for its socket: poll for handshake_poll_events */
    HANDSHAKE_CLAIMED, /* acceptor: check the claim, then call handshake_admit or handshake_close */
    HANDSHAKE_DONE,    /* both ends hold the key: take fd, and set it to -1 */
    HANDSHAKE_FAILED   /* the fields why, foreign and error give the reason */
};

struct handshake {
    int fd; /* -1: none */
    enum handshake_state state;
    bool connector;      /* this end connected; else it accepted */
    bool keeps_packets;  /* a packet socket; else a stream */
    int64_t begun_us;    /* clock_us time */
    int64_t deadline_us; /* when the owner gives up; HANDSHAKE_TIMEOUT_US after the start unless the owner
                            changes it */
    const unsigned char *key;
    struct handshake_claim claim; /* the connector's claim; the acceptor has it from HANDSHAKE_CLAIMED on */
    const char *why;              /* a phrase that follows "the other end" */
    bool foreign;                 /* the other end is not a valid peer; else the connection failed */
    bool wrong_key;               /* foreign because it has another key */
    int error;                    /* errno of the failure; 0: the other end closed the connection */
    unsigned char transcript[HANDSHAKE_ALL_BYTES]; /* the messages so far */
    size_t length;                                 /* of the transcript */
};

/* Begin at the end that connects, on a non-blocking socket on which connect() has been called. [key], of
 * HANDSHAKE_KEY_BYTES, must stay valid until the handshake is closed or done. Takes ownership of [fd]. */
void handshake_connect(struct handshake *handshake, const unsigned char *key,
                       const struct handshake_claim *claim, int fd);

/* Begin at the end that accepted the non-blocking socket [fd]. Takes ownership of [fd]. */
void handshake_accept(struct handshake *handshake, const unsigned char *key, int fd);

/* The events to pass to poll. */
short handshake_poll_events(const struct handshake *handshake);

/* Continue as far as possible without blocking. Call it when poll reports the socket ready. Bytes after
 * the last message stay in the socket. */
enum handshake_result handshake_advance(struct handshake *handshake);

/* Admit the claim: the confirmation may be sent. Call handshake_advance next. */
void handshake_admit(struct handshake *handshake);

/* After HANDSHAKE_DONE: derive a key for each direction, of HANDSHAKE_KEY_BYTES, which no other connection
 * has. */
void handshake_session_keys(const struct handshake *handshake, unsigned char *send_key,
                            unsigned char *receive_key);

/* Which of [count] handshakes, of those at the end that accepted, has been under way for longest; -1: none
 * is. The first is at [first], and each next one [stride] bytes behind. */
int handshake_oldest(const struct handshake *first, size_t stride, int count);

/* Close the socket, if any. */
void handshake_close(struct handshake *handshake);

/* Why a peer that holds the key should not be connected to [rank] in [epoch]; NULL if it should. */
const char *handshake_stray_reason(const struct handshake_claim *claim, uint32_t epoch, int rank);

#endif
