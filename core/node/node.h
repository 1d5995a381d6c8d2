/* node.h: the shared memory of the ranks of one node, and how they attach to it.
 *
 * node/ promises that the ranks of a node reach the same memory, and that no rank can make another one touch
 * memory outside it. Its stages: attach.c, with attach_leader.c and attach_member.c, brings the ranks
 * together; node_memory.c lays out what they share and shared_file.c makes the files; windows.c has memory
 * for programs, and arena.c regions for process sets. What lies there: slots.c and counters.h pass chunks,
 * byte_ring.c bytes. doorbell.c wakes ranks, process_watch.c sees them end, and cores.c compares the cores
 * that they have. */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <stdbool.h>

#include "node/arena.h"
#include "node/cores.h"
#include "net/peer_table.h"
#include "base/tree_shape.h"
#include "node/windows.h"

struct node;

/* Attach to the node's shared memory. members[0] is the leader, the lowest of the ranks that may share
 * memory. On the leader [members] are all of them, ascending; a member learns the others from the leader, and
 * needs to name no other. The leader makes the memory (memfd). It hands the memory and each rank's doorbell
 * (eventfd) to the members on an abstract unix socket, whose name and handshake come from the job key and
 * epoch. The leader returns when all members are attached, or at [deadline_us] if that is earlier. A member
 * returns when it is attached, or with an error; that may be a second after the later of its own and the
 * leader's deadline. A leader that cannot make the memory refuses its members at once, with the reason:
 * HVD_ERR_UNSUPPORTED on them. The caller must then agree with the other ranks on who is attached. */
int node_attach(struct node **nodep, const struct peer_table *peer_table, const int *members,
                int member_count, int64_t deadline_us, struct hvd_error *err);

/* The part of the node's memory that process sets share. It lives as long as the node. Empty if [node] is
 * NULL. */
struct arena node_arena(const struct node *node);

/* The windows of the node's ranks, by their place among [members]. From now on the caller must detach them.
 * None if [node] is NULL. */
struct windows node_take_windows(struct node *node);

/* Has this rank attached, and leads its node? */
bool node_leads(const struct node *node);

/* The ranks that have attached to this leader, itself included, ascending, into [ranks] (room for all
 * members); returns how many. */
int node_attached_ranks(const struct node *node, int *ranks);

/* The file in which the leader hands its members what it knows of all ranks: it fills the file once, and then
 * all map it (shared_file.h). */
int node_peers_file(const struct node *node);

/* Whether the cores of the node's ranks suffice. Call it once all ranks are attached: all get the same
 * answer. If [node] is NULL they suffice. */
int node_oversubscription(const struct node *node, struct oversubscription *oversubscription,
                          struct hvd_error *err);

/* NULL is fine. */
void node_close(struct node *node);

#endif
