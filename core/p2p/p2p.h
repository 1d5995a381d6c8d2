/* p2p.h: messages between two ranks, of which no other rank hears.
 *
 * p2p/ promises that a message reaches the receive that matches it, in the order in which its sender began it
 * among those with its process set and tag, or that both ends learn why not. Its stages: matching.c finds the
 * receive of a message; channel.c carries frames (p2p_frame.h) over one connection, or inside a node through
 * the rings of ring_pair.c; connect.c makes connections when a rank first sends to another, and accepts those
 * of others; arrivals.c handles what comes, p2p.c what this rank begins; op_watch.c times it.
 *
 * A connection carries the messages of the rank that made it. A small message is done for its sender once it
 * is on its way, while the receiver has room for it: P2P_WINDOW_BYTES for each sender. A larger one, or one
 * that finds no room, waits at its sender until a receive takes it, and then goes straight into its memory;
 * inside a node the receiver reads it from there where the kernel allows that. Bytes on a GPU may go by
 * another way than a connection (p2p_direct); direct.c carries the words by which both ends agree on that.
 *
 * All calls are made by the progress driver. */
#ifndef P2P_P2P_H
#define P2P_P2P_H

#include "base/clock.h"
#include "net/establishment.h"
#include "p2p/channel.h"
#include "p2p/matching.h"

struct p2p;

enum p2p_direction { P2P_SEND, P2P_RECEIVE };

/* What an op waits for. */
enum p2p_wait {
    P2P_WAIT_PROGRAM,    /* that the program of the other end begins its part */
    P2P_WAIT_STREAM,     /* that a GPU of this rank has come so far: [held] */
    P2P_WAIT_CONNECTION, /* which is being made */
    P2P_WAIT_BYTES       /* both ends have begun */
};

/* One send or receive of this rank. The caller keeps it, and its memory, until it has ended. */
struct p2p_op {
    enum p2p_direction direction;
    struct envelope envelope; /* of a send: its source is this rank */
    int to;                   /* of a send: the rank of the job that receives */
    enum hvd_dtype dtype;
    char *memory; /* a send only reads it */
    bool direct;  /* larger than P2P_EAGER_BYTES, and on a GPU: [memory] is NULL until p2p asks for it */
    int64_t bytes;
    bool held;    /* the caller waits for a stream of its program before it goes on */
    int *sourcep; /* of a receive: where to write the rank of the sender, or NULL */
    void *user;
    /* used by p2p only */
    uint64_t id;         /* of its offer, once there is one */
    struct channel *via; /* of a direct one, once both ends are known */
    uint64_t address;    /* of a receive that reads: where the bytes lie in the sender's memory */
    int64_t read_bytes;  /* so many of them are here */
    struct p2p_out out;  /* its bytes on their way out */
    TAILQ_ENTRY(p2p_op) link;
    struct {
        TAILQ_ENTRY(p2p_op) link; /* of all that have begun */
        int64_t since_us;         /* it has not moved since then */
        struct repeat repeat;     /* that was reported */
        int64_t moved_bytes;      /* and wait: at the last look */
        enum p2p_wait wait;
    } watch;
};

/* [op] is over. [reason]: NULL for HVD_OK; otherwise the cause. The op is the caller's again. */
typedef void (*p2p_ended_f)(void *arg, struct p2p_op *op, int status, const char *reason);

/* How long an op may stand still before it is reported, and again after as long; before the job has to end,
 * whatever the op waits for; and before that if both ends have begun it. 0: without a limit. */
struct p2p_limits {
    int64_t warn_us, abort_us, hang_us;
};

/* The steps of an op whose bytes may go from GPU to GPU. The caller has it from one of them until the call
 * that it makes then. */
enum p2p_step {
    P2P_STEP_MATCHED, /* a receive, with a direct send: p2p_take when it is ready */
    P2P_STEP_TAKEN,   /* a send, so that its bytes go from GPU to GPU: begin to send them, and p2p_start */
    P2P_STEP_WANTED,  /* a send, through memory of the host: p2p_start when they are in op->memory */
    P2P_STEP_STARTED  /* a receive that has taken a send: that was begun; p2p_end when its bytes are here */
};

/* What the caller does for direct ops. Errors are phrases such as "a second card", about the other end. */
struct p2p_direct {
    /* [op] is at [step]; [rank] is its other end. */
    int (*step)(void *arg, struct p2p_op *op, int rank, enum p2p_step step, struct hvd_error *err);
    /* Rank [rank], to which this rank [sends] or from which it receives, has sent its card. */
    int (*card)(void *arg, int rank, bool sends, const char card[P2P_CARD_BYTES], struct hvd_error *err);
    /* The bytes of [receive] come to the host: give it memory. */
    int (*supply)(void *arg, struct p2p_op *receive, struct hvd_error *err);
};

struct p2p_params {
    const struct peer_table *peer_table;
    const struct hvd_log *log;
    struct endpoint *endpoint; /* NULL: this rank sends to itself only */
    struct arena arena;        /* what ranks of this node share, for rings; empty: none are made or joined */
    int epoll_fd;              /* what the driver sleeps on */
    p2p_ended_f ended;
    bool (*set_is_over)(void *arg, hvd_set set); /* it was removed: what still comes for it is dropped */
    struct p2p_limits limits;
    const struct p2p_direct *direct; /* NULL: no op is */
    void *arg;
};

int p2p_create(struct p2p **p2pp, const struct p2p_params *params, struct hvd_error *err);

/* [send] is held, and timed as one that has begun; until p2p_begin, or p2p_drop if it never begins. */
void p2p_hold(struct p2p *p2p, struct p2p_op *send);
void p2p_drop(struct p2p *p2p, struct p2p_op *send);

/* Begin [op], which may end at once. An error says that the job cannot go on: then p2p_abandon ends it. */
int p2p_begin(struct p2p *p2p, struct p2p_op *op, struct hvd_error *err);

/* Receiver: take the message with which [receive] is matched, from GPU to GPU or through memory of the host.
 */
int p2p_take(struct p2p *p2p, struct p2p_op *receive, bool direct, struct hvd_error *err);

/* Sender: tell the receiver that [send] was begun from GPU to GPU, until p2p_end; or send it from its memory.
 */
int p2p_start(struct p2p_op *send, bool direct, struct hvd_error *err);

/* [op], which the caller has, is over. */
void p2p_end(struct p2p *p2p, struct p2p_op *op, int status, const char *reason);

/* Send this rank's card to [rank]. */
int p2p_send_card(struct p2p *p2p, int rank, bool sends, const char card[P2P_CARD_BYTES],
                  struct hvd_error *err);

/* Receive and send what can be. HVD_ERR_RANK_LOST is about *rankp. */
int p2p_advance(struct p2p *p2p, bool *movedp, int *rankp, struct hvd_error *err);

/* An op that has not moved for too long. */
struct p2p_stalled {
    const struct p2p_op *op;
    int rank; /* the other end; HVD_ANY_SOURCE */
    enum p2p_wait wait;
    int64_t waited_us;
    int others; /* ops that are due too */
    bool must_abort;
};

/* Find one, once it is time to look: p2p_deadline says when. */
bool p2p_find_stalled(struct p2p *p2p, struct p2p_stalled *stalled);

/* armed: from now on other ranks of the node ring for what the ops wait for. */
void p2p_arm(struct p2p *p2p, bool armed);

/* The driver has taken events: the next p2p_advance looks at the sockets, even if no op waits for them. */
void p2p_look(struct p2p *p2p);

/* When p2p_advance or p2p_find_stalled has something to do though no socket is ready: clock_us time, or
 * INT64_MAX. */
int64_t p2p_deadline(const struct p2p *p2p);

/* Has this rank woken another one of the node since the last call? */
bool p2p_has_woken(struct p2p *p2p);

/* Is there a connection that carries bytes? Is one being made? Is a message under way? */
bool p2p_has_sockets(const struct p2p *p2p);
bool p2p_is_connecting(const struct p2p *p2p);
bool p2p_is_busy(const struct p2p *p2p);

/* The process set is no more: end what waits in it for the other end, and drop what came for it. */
void p2p_end_set(struct p2p *p2p, hvd_set set, int status, const char *reason);

/* The job is over: close all connections, and end everything. */
void p2p_abandon(struct p2p *p2p, int status, const char *reason);

/* This rank sends no more, and receives no more than it has begun to. Others may still take what it has sent.
 */
void p2p_leave(struct p2p *p2p);

/* [rank] sends no more, and whatever it has sent has a connection by now: what waits for it and nobody else
 * ends when that has been received. */
void p2p_left(struct p2p *p2p, int rank);

/* In a forked child: close descriptors, touch nothing else. */
void p2p_after_fork(struct p2p *p2p);

/* Nothing is in flight: p2p_abandon has ended all. NULL is fine. */
void p2p_destroy(struct p2p *p2p);

#endif
