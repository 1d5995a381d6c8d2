/* mailbox.h: control by in-memory mailboxes between ranks of one process: simulation, unit tests, and the job
 * of one rank. */
#ifndef CONTROL_MAILBOX_H
#define CONTROL_MAILBOX_H

#include "control/control.h"

struct local_world;

/* One control object for each of [size] ranks, with the tree that shape_of_rank gives for [node_of_rank]. All
 * calls but kick come from one thread; what one rank sends, another receives at its next call, in the order
 * sent. A rank that is closed and has not said farewell is dead to the others: HVD_ERR_RANK_LOST. */
int local_world_open(struct local_world **worldp, const int *node_of_rank, int size, struct hvd_error *err);

/* Valid until it is closed; the world ends when its last rank is closed. */
struct control *local_world_rank(struct local_world *world, int rank);

/* Messages of one rank, and bytes in them. */
struct local_counts {
    uint64_t received, received_bytes;
    uint64_t sent, sent_bytes;
};

/* How many there were until now. */
struct local_counts local_world_counts(const struct local_world *world, int rank);

/* Close the ranks that are still open. NULL is fine. */
void local_world_close(struct local_world *world);

#endif
