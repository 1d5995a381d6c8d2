/* team.h: how the members of a team lie on nodes. Every rank can tell, without communication. Pure. */
#ifndef BACKEND_TEAM_H
#define BACKEND_TEAM_H

#include "backend/backend.h"

/* The first member behind those that share a node with [first], without a gap. [node_of_rank] is the peer
 * table's. */
int team_node_end(const int *node_of_rank, const struct team *team, int first);

/* Does the team span several nodes, with several members on at least one of them, and with each node's
 * members one after the other, as the order of sums needs them? Otherwise *whyp is a phrase that says what is
 * wrong. */
bool team_spans_nodes(const int *node_of_rank, const struct team *team, const char **whyp);

/* What team.ppn is for these members. */
int team_ppn(const int *node_of_rank, const struct team *team);

#endif
