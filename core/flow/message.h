/* message.h: one message of a request: what p2p/ carries, and where its tensor is. */
#ifndef FLOW_MESSAGE_H
#define FLOW_MESSAGE_H

#include "flow/host_block.h"
#include "flow/request.h"
#include "p2p/p2p.h"

struct message {
    struct p2p_op op; /* its user is this message; its memory is the host's */
    struct request_tensor *tensor;
    char *on_gpu; /* the tensor's memory there; NULL: it is op.memory */
    /* used by message_staging or message_direct only, whichever has it */
    struct host_block *block;
    struct gpu_event *copied;     /* NULL until the copy, or NCCL's part, is in the GPU's queue */
    struct message_pair *pair;    /* NULL until both ends are known */
    struct transfer_queue *queue; /* through which NCCL moves it */
    TAILQ_ENTRY(message) link;
};

TAILQ_HEAD(message_list, message);

#endif
