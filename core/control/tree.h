/* tree.h: the control tree of a job: shared rings inside a node, sockets between nodes. */
#ifndef CONTROL_TREE_H
#define CONTROL_TREE_H

#include "base/tree_shape.h"
#include "control/control.h"
#include "net/peer_table.h"

struct node;
struct seal;

/* The control object of one rank. It reaches its parent and children through rings in the memory of [node]
 * where they are on the same node, else through the socket link_fds[link]; link_fds[link] is -1 for the
 * former, and [node] is NULL where this rank is alone on its node. Each rank watches the
 * processes of its children on this node and of the next rank there, a member also its leader's and parent's.
 * Takes the descriptors, also on failure, and [node] unless it fails. [peer_table] and its log must outlive
 * the object. */
int control_open(struct control **controlp, const struct peer_table *peer_table,
                 const struct tree_shape *shape, struct node *node, const int *link_fds,
                 struct hvd_error *err);

/* Seal the sockets: from now on, before anything is sent, link [i] sends and receives through [seals][i];
 * NULL: it is not sealed. Takes the seals. */
void control_seal(struct control *control, struct seal *const *seals);

#endif
