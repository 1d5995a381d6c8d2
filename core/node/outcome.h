/* outcome.h: how a node's leader and its members tell each other, in the node's memory, how they fared in a
 * step of the start. */
#ifndef NODE_OUTCOME_H
#define NODE_OUTCOME_H

#include <stdint.h>

#include "node/node.h"

/* On a member: say whether it can go on. */
void node_report(struct node *node, int status, const char *reason);

/* On the leader: HVD_OK if all attached members have reported that they can go on; else the status and the
 * reason of the lowest one that cannot, and its number in *rankp. HVD_ERR_TIMEOUT where it has reported
 * nothing until [deadline_us]. */
int node_first_failure(const struct node *node, int64_t deadline_us, int *rankp, struct hvd_error *err);

/* On the leader: conclude a step. [value] is what the members want to know of it besides. */
void node_conclude(struct node *node, int status, int value, const char *reason);

/* On a member: wait for the outcome on step [step], the first being 1, and return its status. *valuep and the
 * reason in [err] are the leader's. HVD_ERR_RANK_LOST where the leader ended meanwhile, HVD_ERR_TIMEOUT where
 * it said nothing until [deadline_us]. */
int node_await_outcome(struct node *node, uint32_t step, int64_t deadline_us, int *valuep,
                       struct hvd_error *err);

#endif
