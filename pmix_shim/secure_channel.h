/* secure_channel.h: sealed frames over one TCP connection of the env provider. The keys come from the
 * handshake of auth/handshake.h, which has proved that both ends hold the job key: nobody else can read,
 * forge, repeat or reorder a frame. */
#ifndef PMIX_SHIM_SECURE_CHANNEL_H
#define PMIX_SHIM_SECURE_CHANNEL_H

#include "auth/handshake.h"
#include "pmix_shim/store.h"

#define SECURE_CHANNEL_MESSAGE_BYTES (STORE_PAGE_BYTES + 64) /* longest content of a frame */

/* Bytes that wait to be sent. */
struct send_buffer {
    unsigned char *bytes;
    size_t length, sent;
};

struct secure_channel {
    int fd; /* -1: not open */
    unsigned char send_key[HANDSHAKE_KEY_BYTES], receive_key[HANDSHAKE_KEY_BYTES];
    uint64_t send_count, receive_count; /* frames so far: the nonces */
    struct send_buffer out;
    unsigned char *frame; /* that is being received; room for the longest so far */
    size_t frame_length;  /* bytes of it that are here */
    size_t frame_room;
};

/* Take the socket of a handshake that is done, and derive the keys of this connection. */
void secure_channel_open(struct secure_channel *channel, struct handshake *handshake);
/* Closes the socket and wipes the keys. Also fine on a channel whose fd is -1 and the rest 0. */
void secure_channel_close(struct secure_channel *channel);

/* Seal a message and begin to send it. secure_channel_flush sends the rest; it is HVD_OK when nothing is
 * left, HVD_IN_PROGRESS before. What the network reports is HVD_ERR_SYSTEM with errno. */
int secure_channel_send(struct secure_channel *channel, const void *message, size_t length,
                        struct hvd_error *err);
int secure_channel_flush(struct secure_channel *channel, struct hvd_error *err);

/* The next message, in memory that is valid until the next call; HVD_IN_PROGRESS while it is incomplete. A
 * frame that is not sealed with this connection's key is HVD_ERR_INVALID; an end of file HVD_ERR_RANK_LOST.
 */
int secure_channel_receive(struct secure_channel *channel, const unsigned char **messagep, size_t *lengthp,
                           struct hvd_error *err);

#endif
