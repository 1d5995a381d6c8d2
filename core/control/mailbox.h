/* mailbox.h: control by mailboxes in memory, between ranks of one process: for simulations, unit tests and
 * the job of one rank. */
#ifndef CONTROL_MAILBOX_H
#define CONTROL_MAILBOX_H

#include "control/control.h"

struct mailbox_world;

/* One control object for each of [size] ranks, with the tree that tree_shape_of_rank makes for
 * [node_of_rank]. All calls except kick come from one thread. A message is received at the receiver's next
 * call, in the order sent. If a rank is closed without a farewell the others receive an ABORT with
 * HVD_ERR_RANK_LOST. */
int mailbox_world_open(struct mailbox_world **worldp, const int *node_of_rank, int size,
                       struct hvd_error *err);

/* The control object of [rank], valid until it is closed. Closing the last rank frees the world. */
struct control *mailbox_world_rank(struct mailbox_world *world, int rank);

/* For tests: messages of one rank, and their bytes. */
struct mailbox_counts {
    uint64_t received, received_bytes;
    uint64_t sent, sent_bytes;
};

struct mailbox_counts mailbox_world_counts(const struct mailbox_world *world, int rank);

/* For tests: close the ranks that are still open. NULL is fine. */
void mailbox_world_close(struct mailbox_world *world);

#endif
