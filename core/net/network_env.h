/* network_env.h: the variables that tell NCCL, UCX, Gloo and Open MPI which network to use: what they are to
 * say of a choice, and whether what a user has given fits this node. Pure. */
#ifndef NET_NETWORK_ENV_H
#define NET_NETWORK_ENV_H

#include <stdbool.h>

#include "topo/nic_env.h"

#define NETWORK_ENV_WHY_BYTES 200

struct network_node;
struct network_plan;
struct network_choice;

/* What the choice means on [node]: the interfaces of its rails for sockets; for RDMA all cards that were
 * kept, if every node has some. A list that cannot be told is left out. */
void network_env_of_choice(const struct network_node *nodes, const struct network_plan *plan,
                           const struct network_choice *choice, int node, struct nic_env *settings);

/* What is wrong on [node] with what its user gave, where that is to be told, into [why]. */
bool network_env_is_wrong(enum nic_env_id id, const struct network_node *nodes,
                          const struct network_plan *plan, const struct network_choice *choice, int node,
                          char why[NETWORK_ENV_WHY_BYTES]);

#endif
