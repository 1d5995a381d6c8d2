/* secure_channel.h: one TCP connection of the env provider: both ends prove that they hold the job key, then
 * exchange sealed frames: nobody else can read, forge, repeat or reorder them. */
#ifndef PMIX_SHIM_SECURE_CHANNEL_H
#define PMIX_SHIM_SECURE_CHANNEL_H

#include <sodium.h>
#include <stdbool.h>

#include "pmix_shim/store.h"

#define SECURE_CHANNEL_KEY_BYTES     32
#define SECURE_CHANNEL_MESSAGE_BYTES (STORE_PAGE_BYTES + 64) /* longest content of a frame */
#define SECURE_CHANNEL_HELLO_BYTES   84

/* What the end that connects says of itself. Believe it only when a frame has been received: a hello can be
 * repeated. */
struct secure_channel_id {
    uint32_t epoch, size, rank;
};

/* Bytes that wait to be sent. */
struct send_buffer {
    unsigned char *bytes;
    size_t length, sent;
};

struct secure_channel {
    int fd;
    const unsigned char *key;                           /* of the job */
    unsigned char greeting[SECURE_CHANNEL_HELLO_BYTES]; /* hello as it was sent or is being received */
    unsigned char send_key[SECURE_CHANNEL_KEY_BYTES], receive_key[SECURE_CHANNEL_KEY_BYTES];
    uint64_t send_count, receive_count; /* frames so far: the nonces */
    struct send_buffer out;
    unsigned char *frame; /* that is being received; room for the longest so far */
    size_t have;          /* bytes of it, or of the greeting */
    size_t frame_room;
};

/* Take the non-blocking socket [fd]. [key] is borrowed. */
void secure_channel_init(struct secure_channel *channel, int fd, const unsigned char *key);
/* Also fine on a zeroed channel whose fd is -1. */
void secure_channel_fini(struct secure_channel *channel);

/* The handshake never blocks: HVD_IN_PROGRESS until the other end's part is here. The end that accepted calls
 * secure_channel_accept with the epoch of the job in [id], and gets what the other says of itself; the end
 * that connected calls secure_channel_connect once, then secure_channel_await_welcome. A wrong key or epoch
 * is HVD_ERR_INVALID; an end of file HVD_ERR_RANK_LOST; what the network says HVD_ERR_SYSTEM with errno. */
int secure_channel_accept(struct secure_channel *channel, struct secure_channel_id *id,
                          struct hvd_error *err);
int secure_channel_connect(struct secure_channel *channel, const struct secure_channel_id *id,
                           struct hvd_error *err);
int secure_channel_await_welcome(struct secure_channel *channel, struct hvd_error *err);

/* After the handshake: seal a message and begin to send it; the rest goes out in secure_channel_flush, which
 * is HVD_OK when nothing is left. */
int secure_channel_send(struct secure_channel *channel, const void *message, size_t length,
                        struct hvd_error *err);
int secure_channel_flush(struct secure_channel *channel, struct hvd_error *err);

/* The next message, in memory that is valid until the next call; HVD_IN_PROGRESS while it is not here. */
int secure_channel_receive(struct secure_channel *channel, const unsigned char **messagep, size_t *lengthp,
                           struct hvd_error *err);

#endif
