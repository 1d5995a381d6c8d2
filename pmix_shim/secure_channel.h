/* secure_channel.h: messages over one TCP connection of the env provider, each in a sealed record of
 * auth/record.h. The keys come from the handshake of auth/handshake.h, which has proved that both ends hold
 * the job's key. Nobody else can read, forge, repeat or reorder a message. */
#ifndef PMIX_SHIM_SECURE_CHANNEL_H
#define PMIX_SHIM_SECURE_CHANNEL_H

#include "auth/record.h"
#include "pmix_shim/store.h"

#define SECURE_CHANNEL_MESSAGE_BYTES (STORE_PAGE_BYTES + 64) /* the longest message in a frame */

/* Bytes that wait to be sent. */
struct send_buffer {
    unsigned char *bytes;
    size_t length, sent;
};

struct secure_channel {
    int fd; /* -1 if the channel is not open */
    struct record_key send_key, receive_key;
    struct send_buffer out;
    unsigned char *frame; /* the frame that is being received; its memory has room for the longest so far */
    size_t frame_length;  /* bytes of it that have come */
    size_t frame_room;
};

/* Take ownership of the socket of a handshake that is done, and derive the keys of this connection. As
 * record_keys: after an error the socket is still the handshake's. */
int secure_channel_open(struct secure_channel *channel, struct handshake *handshake, struct hvd_error *err);
/* Close the socket and wipe the keys. Also fine on a channel whose fd is -1 and that is zeroed otherwise. */
void secure_channel_close(struct secure_channel *channel);

/* Seal a message and begin to send it. secure_channel_flush sends the rest: it returns HVD_OK when nothing
 * is left, and HVD_IN_PROGRESS before that. A failure of the network is HVD_ERR_SYSTEM with errno. */
int secure_channel_send(struct secure_channel *channel, const void *message, size_t length,
                        struct hvd_error *err);
int secure_channel_flush(struct secure_channel *channel, struct hvd_error *err);

/* Receive the next message, in memory that is valid until the next call; HVD_IN_PROGRESS while it is
 * incomplete. HVD_ERR_INVALID if the frame is not sealed with this connection's key, and HVD_ERR_RANK_LOST
 * at the end of the stream. */
int secure_channel_receive(struct secure_channel *channel, const unsigned char **messagep, size_t *lengthp,
                           struct hvd_error *err);

#endif
