/* node.h: the shared memory of the ranks of one node, and how they attach to it. */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "node/arena.h"
#include "node/cores.h"
#include "net/peer_table.h"
#include "base/tree_shape.h"
#include "node/windows.h"

struct node;

/* Meet. [members] are the ranks that may share memory, ascending, this rank among them; the first leads. The
 * leader makes the memory (memfd) and hands it over, with each rank's doorbell (eventfd), on an abstract unix
 * socket whose name and handshake come from the job key and epoch. The leader returns when all members came
 * or at [deadline_us], whichever is first; a member when it is attached, which may be a second after the
 * later of its own and the leader's deadlines, or with an error. Who came is agreed by the caller afterwards.
 */
int node_attach(struct node **nodep, const struct peer_table *peer_table, const int *members,
                int member_count, int64_t deadline_us, struct hvd_error *err);

/* The part of its memory that is free for all its ranks; of NULL an empty one. It lives as long as the node.
 */
struct arena node_arena(const struct node *node);

/* The windows of its ranks, by their place among [members]: from now on the caller's to detach. Of NULL none.
 */
struct windows node_take_windows(struct node *node);

/* What cores its ranks have. Once all have met: the same on all. Of NULL: enough. */
int node_oversubscription(const struct node *node, struct oversubscription *oversubscription,
                          struct hvd_error *err);

/* NULL is fine. */
void node_close(struct node *node);

#endif
