/* channel.h: frames over one connection between two ranks, or over rings in its place, and the bytes that
 * follow them. */
#ifndef P2P_CHANNEL_H
#define P2P_CHANNEL_H

#include <stdbool.h>
#include <sys/queue.h>

#include "net/connection.h"
#include "net/establishment.h"
#include "p2p/p2p_frame.h"
#include "p2p/ring_pair.h"

struct p2p_op;
struct p2p_arrival;

/* A frame on its way out. */
struct p2p_out {
    STAILQ_ENTRY(p2p_out) link;
    unsigned char header[P2P_FRAME_BYTES];
    const char *bytes; /* that follow it */
    size_t length;     /* of these */
    size_t sent;       /* of header and bytes together */
    struct p2p_op *op; /* that ends once it is sent, or NULL */
    bool owned;        /* by the channel, which frees it */
    bool queued;
};

/* The bytes of a message that comes in. */
struct payload {
    bool active;
    char *to; /* NULL: they are dropped */
    int64_t left;
    bool is_card;
    struct p2p_op *op;           /* whose memory that is, or NULL */
    struct p2p_arrival *arrival; /* whose memory that is, or NULL */
};

#define CHANNEL_BUFFER_BYTES 16384

TAILQ_HEAD(p2p_ops, p2p_op);

/* One connection, which carries the messages of one rank to the other. */
struct channel {
    LIST_ENTRY(channel) link;
    int rank;      /* the other end */
    bool outgoing; /* this rank sends messages; else it receives them */
    int fd;        /* -1: not connected yet, or not any more */
    struct seal *seal;
    struct connection_ends ends;
    struct connection_silence silence;
    struct ring_pair pair;
    /* while it is being made */
    struct endpoint_connection want;
    struct establishment *establishment;
    /* frames */
    STAILQ_HEAD(p2p_outs, p2p_out) outs;
    bool readable,
        writable;  /* its socket may be; known from its events. With rings: its rings may be written */
    bool farewell; /* the end that sends messages has sent its last */
    unsigned char buffer[CHANNEL_BUFFER_BYTES];
    size_t begin, end; /* of what was received and not yet handled */
    struct payload payload;
    /* messages */
    struct p2p_ops offers; /* outgoing: sends that wait to be taken; else receives that have taken an offer */
    struct p2p_ops reads;  /* incoming: receives that read the sender's memory */
    int64_t read_bytes;    /* incoming: how many of them the next round reads; 0: none was read yet */
    uint64_t last_id;      /* outgoing: of its offers */
    int64_t credit_bytes;  /* outgoing: room that the receiver has left; else room to tell the sender of */
    int64_t room_bytes;    /* incoming: what the sender may still use of the room that it was told of */
    struct p2p_out credit;
    /* messages that go from GPU to GPU */
    struct p2p_out card;
    char own_card[P2P_CARD_BYTES], peer_card[P2P_CARD_BYTES];
};

/* NULL if memory is out. */
struct channel *channel_create(int rank, bool outgoing);

/* It is connected. Its socket's events make [epoll_fd] readable. */
int channel_connect(struct channel *channel, int fd, struct seal *seal, int epoll_fd, struct hvd_error *err);

/* Send [out] behind what is queued. [frame] is its header; [bytes] follow it. */
void channel_queue(struct channel *channel, struct p2p_out *out, const struct p2p_frame *frame,
                   const void *bytes, size_t length);

/* The same without bytes, in memory of its own. HVD_ERR_NO_MEMORY. */
int channel_queue_frame(struct channel *channel, const struct p2p_frame *frame, struct hvd_error *err);

/* Do its bytes go through rings? */
static inline bool channel_has_rings(const struct channel *channel)
{
    return channel->pair.memory != NULL;
}

/* Send what the socket takes. -1 with errno if the connection has failed. Then channel_sent returns, one
 * after the other, the ops whose frames are sent; NULL: no more. */
int channel_send(struct channel *channel, bool *movedp);
struct p2p_op *channel_sent(struct channel *channel);

/* Receive what the socket has, in one call, into the payload and the buffer. -1 with errno if the connection
 * has failed; errno is 0 at the end of the stream. */
int channel_receive(struct channel *channel, bool *movedp);

/* Move what is in the buffer into the payload. True if the payload is complete. */
bool channel_fill_payload(struct channel *channel);

/* The next header in the buffer; NULL: not all of it has come. */
const unsigned char *channel_next_header(struct channel *channel);

/* Close its socket. */
void channel_close(struct channel *channel, int epoll_fd);

/* Drop the frames that were not sent. Returns their ops, one after the other; NULL: no more. */
struct p2p_op *channel_drop(struct channel *channel);

/* NULL is fine. */
void channel_free(struct channel *channel);

#endif
