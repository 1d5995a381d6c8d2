/* message_staging.h: messages of tensors on the GPU, which travel through pinned memory of the host.
 *
 * A send begins when its bytes have come from the GPU, and after all earlier ones to the same rank with its
 * process set and tag. A receive is over when its bytes are on the GPU. Nothing waits in a queue of the GPU
 * for what the program's stream still computes, since that may need what other messages bring: the driver
 * asks from time to time. */
#ifndef FLOW_MESSAGE_STAGING_H
#define FLOW_MESSAGE_STAGING_H

#include "flow/message.h"

struct message_staging {
    struct gpu *gpu;
    struct message_list sends;    /* that have not begun, oldest first */
    struct message_list wanted;   /* sends whose receiver wants them from host memory, oldest first */
    struct message_list received; /* whose bytes are not on the GPU yet */
};

void message_staging_init(struct message_staging *staging, struct gpu *gpu);

/* [message] is to begin: give it host memory if it is on the GPU and NCCL will not carry it. [*heldp]: it has
 * to wait, and message_staging_next_send says when no more. */
int message_staging_take(struct message_staging *staging, struct message *message, bool *heldp,
                         struct hvd_error *err);

/* The next send that can begin, or NULL. */
int message_staging_next_send(struct message_staging *staging, struct message **messagep,
                              struct hvd_error *err);

/* [message] goes through host memory, though NCCL might have carried it: give a receive that memory; copy a
 * send into it, and message_staging_next_wanted says when it is there. */
int message_staging_supply(struct message_staging *staging, struct message *message, struct hvd_error *err);
void message_staging_want(struct message_staging *staging, struct message *message);
int message_staging_next_wanted(struct message_staging *staging, struct message **messagep,
                                struct hvd_error *err);

/* The bytes of [message] have come, into its host memory if it has some. True: they have to go to the GPU
 * first, and message_staging_next_stored says when they are there. */
bool message_staging_stores(struct message_staging *staging, struct message *message);

int message_staging_next_stored(struct message_staging *staging, struct message **messagep,
                                struct hvd_error *err);

/* Take one that waits here in [set], or TENSOR_QUEUE_ALL_SETS; NULL: none does. */
struct message *message_staging_withdraw(struct message_staging *staging, hvd_set set);

/* The job is over: take one that is wanted; NULL: none is. */
struct message *message_staging_withdraw_wanted(struct message_staging *staging);

/* [message] is over: its host memory is free for others. */
void message_staging_release(struct message *message);

/* When to ask again; INT64_MAX: never. */
int64_t message_staging_deadline(const struct message_staging *staging);

static inline bool message_staging_holds_sends(const struct message_staging *staging)
{
    return !TAILQ_EMPTY(&staging->sends) || !TAILQ_EMPTY(&staging->wanted);
}

static inline bool message_staging_is_idle(const struct message_staging *staging)
{
    return !message_staging_holds_sends(staging) && TAILQ_EMPTY(&staging->received);
}

#endif
