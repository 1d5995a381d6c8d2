/* messages.h: sends and receives: from a request to p2p/, which carries them, and to their end.
 *
 * Owns this rank's part of p2p/, what waits for the GPU before or after it, and what NCCL carries in its
 * place. Borrows the registry of sets, and what a failure is told to. Calls finish.
 */
#ifndef FLOW_MESSAGES_H
#define FLOW_MESSAGES_H

#include "backend/backends.h"
#include "flow/failure.h"
#include "flow/finish.h"
#include "flow/message_direct.h"
#include "flow/message_staging.h"
#include "flow/set_registry.h"

struct messages {
    struct set_registry *set_registry;
    struct failure *failure;
    struct finish *finish;
    struct p2p *p2p;
    struct message_staging staging;
    struct message_direct direct;
};

/* The first three fields are set. */
int messages_init(struct messages *messages, const struct backends *backends, struct gpu *gpu,
                  struct hvd_error *err);

/* Begin all that the tensor queue has. */
int messages_submit(struct messages *messages, bool *movedp, struct hvd_error *err);

int messages_advance(struct messages *messages, bool *movedp, struct hvd_error *err);

/* When it has something to do though nothing wakes the driver. */
int64_t messages_deadline(const struct messages *messages);

/* This rank leaves: it sends no more. False: others do not know yet of all that it has sent. */
bool messages_leave(struct messages *messages);

/* A process set is no more; or the job is over, and TENSOR_QUEUE_ALL_SETS with it. */
void messages_end(struct messages *messages, hvd_set set, int status, const char *reason);

void messages_fini(struct messages *messages);

#endif
