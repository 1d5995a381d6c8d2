/* message_direct.h: messages from GPU to GPU, which NCCL carries without memory of the host.
 *
 * There is a communicator for each rank that this one sends such messages to, and for each from which it
 * receives them, made at the first one. Its two members move one message at a time; the receiver decides
 * which.
 *
 * A transfer in a queue of the GPU waits there for the other end, so NCCL only gets those that cannot wait
 * for long. None waits for a program: a send is offered when its stream has come so far, and taken when
 * that of its receive has. Nor for another transfer: each has a queue of its own, of which a rank has a few.
 * A receiver keeps one of its queues when it takes a send; the sender begins once it has one, and then the
 * receiver does. So what is in a queue of a sender goes on by itself, and that queue is free again, even if
 * ranks wait for each other in a circle.
 */
#ifndef FLOW_MESSAGE_DIRECT_H
#define FLOW_MESSAGE_DIRECT_H

#include "backend/backend_env.h"
#include "flow/message.h"

/* Transfers of a rank in one direction at once. */
#define TRANSFER_QUEUES 4

LIST_HEAD(message_pairs, message_pair);

/* A queue of the GPU, and the message that goes through it. */
struct transfer_queue {
    struct CUstream_st *stream;
    struct message *message; /* NULL: it is free */
    bool begins;             /* both ends are ready */
    bool launched;           /* NCCL has the message */
};

struct message_direct {
    struct gpu *gpu;
    const struct backend_env *env;
    struct p2p *p2p;
    struct message_pairs pairs;
    struct transfer_queue sends[TRANSFER_QUEUES], receives[TRANSFER_QUEUES];
};

void message_direct_init(struct message_direct *direct, struct gpu *gpu, const struct backend_env *env,
                         struct p2p *p2p);

/* May NCCL carry [message], which has not begun, as far as this rank knows? */
bool message_direct_may_carry(const struct message_direct *direct, const struct message *message);

/* The other end of [message] is [rank]. A receive is matched, or a send taken; [begins]: the send for a
 * receive that has taken it is in the GPU's queue. Errors are phrases about what the other end said. */
int message_direct_take(struct message_direct *direct, struct message *message, int rank, bool begins,
                        struct hvd_error *err);
int message_direct_take_card(struct message_direct *direct, int rank, bool sends, const char *card,
                             struct hvd_error *err);

int message_direct_advance(struct message_direct *direct, bool *movedp, struct hvd_error *err);

/* [message] is over: its queue is free for others. */
void message_direct_release(struct message *message);

/* When to ask again; INT64_MAX: never. */
int64_t message_direct_deadline(const struct message_direct *direct);

/* Has it messages that are known at both ends? */
bool message_direct_is_busy(const struct message_direct *direct);

/* The job is over: stop NCCL, and end all messages that are here. */
void message_direct_end(struct message_direct *direct, int status, const char *reason);

/* Nothing is in flight. */
void message_direct_fini(struct message_direct *direct);

#endif
