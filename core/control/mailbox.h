/* mailbox.h: control by in-memory mailboxes between ranks of one process: simulation, unit tests, and the job
 * of one rank. */
#ifndef CONTROL_MAILBOX_H
#define CONTROL_MAILBOX_H

#include "control/control.h"

struct mailbox_world;

/* One control object for each of [size] ranks, with the tree that tree_shape_of_rank gives for
 * [node_of_rank]. All calls but kick come from one thread; what one rank sends, another receives at its next
 * call, in the order sent. A rank that is closed and has not said farewell is dead to the others:
 * HVD_ERR_RANK_LOST. */
int mailbox_world_open(struct mailbox_world **worldp, const int *node_of_rank, int size,
                       struct hvd_error *err);

/* Valid until it is closed; the world ends when its last rank is closed. */
struct control *mailbox_world_rank(struct mailbox_world *world, int rank);

/* Messages of one rank, and bytes in them. */
struct mailbox_counts {
    uint64_t received, received_bytes;
    uint64_t sent, sent_bytes;
};

/* How many there were until now. */
struct mailbox_counts mailbox_world_counts(const struct mailbox_world *world, int rank);

/* Close the ranks that are still open. NULL is fine. */
void mailbox_world_close(struct mailbox_world *world);

#endif
