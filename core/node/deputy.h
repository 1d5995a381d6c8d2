/* deputy.h: the first member of a node ends the connections of a leader that has died.
 *
 * A child that was made behind the C library's back, by a raw clone, may hold the sockets of a dead leader:
 * the ranks of its node see the process end, but its connections with other nodes stay, and those learn
 * nothing. So the leader leaves copies of these sockets in a unix socket, from which its deputy, the first
 * rank that attached, takes them when the leader's process has ended, and shuts them down. */
#ifndef NODE_DEPUTY_H
#define NODE_DEPUTY_H

/* The two ends, the leader's first: HVD_OK, or HVD_ERR_SYSTEM with errno. */
int deputy_open(int ends[2]);

/* On the leader: leave copies of [fds], at most FD_PASSING_MAX, some of them -1. What cannot be left is not
 * ended early. [leader_end] is -1 where there is no deputy. */
void deputy_entrust(int leader_end, const int *fds, int count);

/* On the deputy, once the leader's process has ended: shut down what it left. -1 is fine. */
void deputy_end_connections(int deputy_end);

#endif
