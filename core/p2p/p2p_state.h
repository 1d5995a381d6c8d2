/* p2p_state.h: what the stages of p2p share. */
#ifndef P2P_P2P_STATE_H
#define P2P_P2P_STATE_H

#include <stddef.h>

#include "p2p/p2p.h"

/* Room for eager messages that one receiver has for one sender, and what a message takes of it at least. */
#define P2P_WINDOW_BYTES INT64_C(524288)
#define P2P_LEAST_BYTES  INT64_C(128)

/* What must be equal at both ends of a message. */
struct contents {
    enum hvd_dtype dtype;
    int64_t bytes;
};

/* A message that came before its receive. */
enum arrival_kind {
    ARRIVAL_EAGER, /* its bytes are here, or coming */
    ARRIVAL_OFFER, /* its bytes wait at the sender */
    ARRIVAL_LOCAL  /* this rank sends to itself: its bytes are those of [send] */
};

struct p2p_arrival {
    struct envelope envelope;
    enum arrival_kind kind;
    struct contents contents;
    struct channel *via; /* NULL: local */
    uint64_t id;         /* of an offer */
    uint64_t address;    /* of an offer: where its bytes lie in the sender's memory, or 0 */
    bool direct;         /* of an offer */
    struct p2p_op *send;
    bool complete;        /* eager: all bytes have come */
    struct p2p_op *taker; /* eager: the receive that gets them once they have */
    char data[];
};

LIST_HEAD(channels, channel);

struct p2p {
    struct p2p_params params;
    struct p2p_matching matching;
    struct channel **outgoing; /* by rank of the job */
    struct channels channels;
    struct endpoint_connection acceptor_want;
    struct establishment *acceptor;
    int epoll_fd;      /* of all sockets, in that of the driver */
    int ops;           /* that have begun and not ended */
    int dials;         /* connections that are being made */
    bool over_sockets; /* some connection has no rings */
    bool armed;
    struct ring_pairs ring_pairs;
    bool look; /* at the sockets, whether ops wait for them or not */
    bool leaving;
    bool *left;          /* by rank: it sends no more */
    int64_t watch_at_us; /* when to look whether the other ends of connections still answer */
    int64_t rounds;
    struct p2p_ops begun;            /* all that have not ended, oldest first */
    int64_t look_at_us, look_set_us; /* when to look at them, and when that was decided */
    int accept_status;               /* of a connection that was accepted; HVD_OK */
    struct hvd_error accept_err;
};

/* ---- p2p.c ---- */

/* What an eager message takes of the window. */
static inline int64_t p2p_room_of(int64_t bytes)
{
    return bytes > P2P_LEAST_BYTES ? bytes : P2P_LEAST_BYTES;
}

static inline struct p2p_arrival *arrival_of(struct envelope *envelope)
{
    return (void *)((char *)envelope - offsetof(struct p2p_arrival, envelope));
}

static inline struct p2p_op *op_of(struct envelope *envelope)
{
    return (void *)((char *)envelope - offsetof(struct p2p_op, envelope));
}

/* [op] is over, see p2p_ended_f. */
void p2p_end_op(struct p2p *p2p, struct p2p_op *op, int status, const char *reason);

/* [rank], the other end of [op], has called hvd_shutdown. */
void p2p_end_by_departure(struct p2p *p2p, struct p2p_op *op, int rank);

/* Say in all rings what this rank wants to be woken for. */
void p2p_arm_rings(struct p2p *p2p);

/* Does the receive of this rank want what comes from [source]? HVD_ERR_MISMATCH with the reason. */
int p2p_check(const struct p2p *p2p, const struct p2p_op *receive, int source, struct contents contents,
              struct hvd_error *why);

/* Write into [why] that [source] sends what [receiver] does not want. */
void p2p_explain(const struct p2p *p2p, int source, struct contents sent, int receiver,
                 struct contents wanted, struct hvd_error *why);

/* ---- arrivals.c ---- */

/* Handle what is in the channel's buffer. HVD_ERR_SYSTEM: the other end breaks the protocol. */
int arrivals_handle(struct p2p *p2p, struct channel *channel, struct hvd_error *err);

/* [receive] gets the message [arrival], which is matched and over after this, or once its bytes are here. */
int arrivals_give(struct p2p *p2p, struct p2p_arrival *arrival, struct p2p_op *receive,
                  struct hvd_error *err);

/* Nobody will receive it any more. */
void arrivals_drop(struct p2p_arrival *arrival);

/* This rank receives no more than it has begun to: drop all that wait for a receive, and tell their senders.
 */
void arrivals_decline(struct p2p *p2p);

/* The sender must send the bytes of the offer that [receive] takes. */
int arrivals_request(struct channel *channel, struct p2p_op *receive, struct hvd_error *err);

/* Go on with the receives that read the sender's memory. */
int arrivals_read(struct p2p *p2p, struct channel *channel, bool *movedp, struct hvd_error *err);

/* ---- direct.c ---- */

/* [receive] gets its bytes through memory of the host. An error has ended it, and ends the job. */
int direct_supply(struct p2p *p2p, struct p2p_op *receive, struct hvd_error *err);

/* Tell the caller of a step of [op] over [channel]. */
int direct_tell(struct p2p *p2p, struct channel *channel, struct p2p_op *op, enum p2p_step step,
                struct hvd_error *err);

/* The card of the other end follows; it has come. */
int direct_expect_card(struct p2p *p2p, struct channel *channel, struct hvd_error *err);
int direct_take_card(struct p2p *p2p, const struct channel *channel, struct hvd_error *err);

/* ---- op_watch.c ---- */

/* [op] begins, or ends. */
void op_watch_begin(struct p2p *p2p, struct p2p_op *op);
void op_watch_end(struct p2p *p2p, struct p2p_op *op);

/* When p2p_find_stalled has something to do: clock_us time, or INT64_MAX. */
int64_t op_watch_deadline(const struct p2p *p2p);

/* ---- connect.c ---- */

/* Accept messages of other ranks from now on. */
int connect_listen(struct p2p *p2p, struct hvd_error *err);

/* The channel for messages to [rank], which is made now if there is none. */
int connect_channel(struct p2p *p2p, int rank, struct channel **channelp, struct hvd_error *err);

/* Go on with the connections that are being made. */
int connect_advance(struct p2p *p2p, bool *movedp, int *rankp, struct hvd_error *err);
int64_t connect_deadline(const struct p2p *p2p);

#endif
